//! Scans as they are every day, and what sources send besides.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
};

use orchestrator_harness::dranspose::{
    Facility, Item, Map, Source, Spec, garbage, header, image, item, judge, run_program, series, series_end,
};
use serde_json::{Value, json};

use super::{BINARY, Fixture};

#[test]
fn one_series_and_three_more() {
    let mut fixture = Fixture::new();
    for (frames, len) in [(20, 1000), (1, 3), (40, 0), (7, 1_500_000)] {
        fixture.scan(frames, len);
    }
    assert!(fixture.ingester.terminate(), "an orderly end");
    assert_eq!(fixture.facility.redis.text(&fixture.spec.key()), None, "the key is gone with the ingester");
}

/// A new map comes while the source is in the middle of a series: what is left of it is no part of the new scan.
#[test]
fn a_new_map_in_the_middle_of_a_series() {
    let mut fixture = Fixture::new();
    let first = fixture.facility.post(&Map::each("eiger", 500));
    let all = series("first", 500, 1000);
    let sent = fixture.source.send(&all[..60]);
    fixture.facility.begun(&first, 60);
    let judged = judge(&fixture.facility, &first, &[("eiger", "STINS", &sent)], false);
    // The start goes to both workers.
    assert!(judged.had >= 60, "{judged:?}");
    let second = fixture.facility.post(&Map::each("eiger", 10));
    fixture.source.send(&all[60..]);
    let sent = fixture.source.send(&series("second", 10, 1000));
    fixture.finish(&second, &sent);
    fixture.scan(5, 10);
}

/// What is no message of the protocol, images before a start and after an end, a start within a series: none is an event.
#[test]
fn what_does_not_belong_to_a_scan_is_thrown_away() {
    let mut fixture = Fixture::new();
    let scan = fixture.facility.post(&Map::each("eiger", 6));
    fixture.source.send(&garbage());
    fixture.source.send(&[image("stray", 7, 100), series_end(3)]);
    let mut sent = fixture.source.send(&[header("series")]);
    for frame in 0..6 {
        fixture.source.send(&garbage());
        sent.extend(fixture.source.send(&[image("series", frame, 2000)]));
        fixture.source.send(&[header("once more")]);
    }
    sent.extend(fixture.source.send(&[series_end(6)]));
    fixture.source.send(&[image("late", 0, 100), header("next"), image("next", 0, 100), series_end(1)]);
    fixture.finish(&scan, &sent);
    fixture.scan(4, 10);
}

/// A start may have a second part, numbers may be texts, and what is unknown is allowed: parts go on as they came.
#[test]
fn parts_are_passed_unchanged() {
    let mut fixture = Fixture::new();
    let scan = fixture.facility.post(&Map::each("eiger", 3));
    let start =
        item(&json!({"htype": "header", "filename": "", "msg_number": "0", "extra": [1, {"a": null}]}));
    let spaced = "{ \"htype\" : \"image\", \"msg_number\":1.0,\"frame\":\"0\", \"shape\":[ 2 ],\"type\":\"u1\", \
                  \"compression\":\"none\" }";
    let items: Vec<Item> = vec![
        start.text("{\"meta\": \"\\u00e9\u{e9}\"}").noise(0, 0).noise(300, 4),
        item(&json!(null)).text(spaced),
        image("x", 0, 100_000).text("").noise(255, 5).noise(256, 6),
        image("x", 1, 1),
        image("x", 2, 0),
        series_end(3),
    ];
    // The second has no valid first part, so it is no event.
    let mut sent = fixture.source.send(&items);
    sent.remove(1);
    fixture.finish(&scan, &sent);
}

/// Two streams of two ingesters in one map: holes in one, frames that nobody wants, frames for two and for all.
#[test]
fn holes_and_several_streams() {
    let Fixture { mut facility, mut source, ingester, .. } = Fixture::new();
    let mut slow = Source::push();
    let _second = facility.ingester(&Spec::stins(&slow.url(), "slow"));
    facility.ready();
    let eiger = vec![
        Map::one(0),
        Map::one(1),
        Map::HOLE,
        Map::nobody(),
        Map::two(0, 1),
        Map::all(),
        Map::one(2),
        Map::HOLE,
        Map::one(3),
    ];
    let other = vec![
        Map::HOLE,
        Map::one(1),
        Map::one(5),
        Map::one(6),
        Map::one(1),
        Map::HOLE,
        Map::nobody(),
        Map::HOLE,
        Map::all(),
    ];
    let frames = |events: &[Value]| events.iter().filter(|event| !event.is_null()).count();
    let (of_eiger, of_slow) = (series("e", frames(&eiger), 500), series("s", frames(&other), 70));
    let map = Map::default().and("eiger", eiger).and("slow", other);
    for _ in 0..2 {
        let scan = facility.post(&map);
        let (sent, also) = (source.send(&of_eiger), slow.send(&of_slow));
        facility.finished(&scan);
        judge(&facility, &scan, &[("eiger", "STINS", &sent), ("slow", "STINS", &also)], true);
    }
    // A map without the other stream: its ingester has nothing to do, and says so.
    let scan = facility.post(&Map::each("eiger", 3));
    let sent = source.send(&series("alone", 3, 10));
    facility.finished(&scan);
    judge(&facility, &scan, &[("eiger", "STINS", &sent)], true);
    drop(ingester);
}

#[test]
fn a_debug_worker_has_what_is_for_it() {
    let mut fixture = Fixture::new();
    let port = fixture.facility.debug_worker("debug1").to_string();
    let events = (0..8).map(|n| if n % 3 == 0 { Map::one_and_debug(n) } else { Map::one(n) }).collect();
    let scan = fixture.facility.post(&Map::default().and("eiger", events));
    let sent = fixture.source.send(&series("debugged", 8, 40));
    fixture.finish(&scan, &sent);
    let had: Value = serde_json::from_str(&run_program("debugged.py", &[&port, "20"])).expect("JSON");
    // The start and the end are for all; event n + 1 is image n.
    let wanted: Vec<_> = [0, 1, 4, 7, 9]
        .iter()
        .map(|&n: &usize| json!({"event": n, "streams": {"eiger": {"typ": "STINS", "parts": sent[n]}}}))
        .collect();
    assert_eq!(had, json!(wanted));
}

#[test]
fn a_scan_that_is_stopped() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        let scan = fixture.facility.post(&Map::each("eiger", 100));
        let all = series("stopped", 100, 100);
        let sent = fixture.source.send(&all[..20]);
        fixture.facility.begun(&scan, 20);
        fixture.facility.stop_scan();
        fixture.facility.finished(&scan);
        judge(&fixture.facility, &scan, &[("eiger", "STINS", &sent)], false);
        fixture.source.send(&all[20..]);
        fixture.scan(5, 100);
    }
}

/// One worker is busy with its event: the other goes on, and nothing is lost.
#[test]
fn a_slow_worker() {
    let mut fixture = Fixture::new();
    let scan = fixture.facility.post(&Map::each("eiger", 60));
    fixture.facility.hold("w1");
    let sent = fixture.source.send(&series("slow", 60, 5000));
    // All but the event that w1 has, and the end, which is for both.
    fixture.facility.begun(&scan, 61);
    fixture.facility.release("w1");
    fixture.finish(&scan, &sent);
}

/// A source that publishes does not wait: the ingester must listen when the map is taken.
#[test]
fn a_source_that_publishes() {
    let mut source = Source::publish();
    let mut facility = Facility::start(BINARY);
    let _ingester = facility.ingester(&Spec::class("ZmqSubXspressIngester", &source.url(), "xspress"));
    facility.workers(&["w1", "w2"]);
    for round in 0..3 {
        let scan = facility.post(&Map::each("xspress", 10));
        source.await_subscriptions(1);
        let mut items = vec![item(&json!({"htype": "header", "filename": format!("{round}")}))];
        let image = |n| item(&json!({"htype": "image", "frame": n, "shape": [4, 16], "type": "uint32"}));
        items.extend((0..5).map(|n| image(n).noise(256, n).noise(20, n)));
        // The older form of an image: three messages in a row, one event.
        let old = |n| [image(n), item(&json!("data")), item(&json!("meta"))];
        items.extend((5..10).flat_map(old));
        items.push(item(&json!({"htype": "series_end"})));
        let mut sent = source.send(&items);
        for event in 6..11 {
            let rest = sent.drain(event + 1..event + 3).collect::<Vec<_>>();
            let parts = sent[event].as_array_mut().expect("parts");
            parts.extend(rest.iter().map(|one| one[0].clone()));
        }
        facility.finished(&scan);
        judge(&facility, &scan, &[("xspress", "xspress", &sent)], true);
    }
}

/// Does something to the lines that a worker noted.
type Wrong = dyn Fn(&mut Vec<String>);

/// Each of these tests is worth what its judge sees.
#[test]
fn the_judge_sees_what_is_wrong() {
    let mut fixture = Fixture::new();
    // For all: so w1 has each of them.
    let scan = fixture.facility.post(&Map::default().and("eiger", vec![Map::all(); 9]));
    let sent = fixture.source.send(&series("judged", 9, 50));
    fixture.finish(&scan, &sent);
    let file = fixture.facility.path().join("w1.jsonl");
    let noted = fs::read_to_string(&file).expect("what w1 noted");
    let lines: Vec<_> = noted.lines().map(str::to_owned).collect();
    let wrongs: [(&str, &Wrong); 6] = [
        ("one is lost", &|lines| drop(lines.remove(1))),
        ("the last is lost", &|lines| drop(lines.pop())),
        ("one came twice", &|lines| lines.insert(1, lines[1].clone())),
        ("one too many", &|lines| lines.push(lines[1].clone())),
        ("the order", &|lines| lines.swap(0, 1)),
        ("a byte", &|lines| lines[1] = lines[1].replacen("[50, \"", "[50, \"0", 1)),
    ];
    for (what, wrong) in wrongs {
        let mut lines = lines.clone();
        wrong(&mut lines);
        fs::write(&file, lines.join("\n") + "\n").expect("write it");
        let judged = catch_unwind(AssertUnwindSafe(|| fixture.finish(&scan, &sent)));
        assert!(judged.is_err(), "not seen: {what}");
    }
    fs::write(&file, noted).expect("write it");
    fixture.finish(&scan, &sent);
    let less = catch_unwind(AssertUnwindSafe(|| fixture.finish(&scan, &sent[1..])));
    assert!(less.is_err(), "not seen: the source sent something else");
}
