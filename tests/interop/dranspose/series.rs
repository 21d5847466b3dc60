//! Ordinary scans, and messages of sources outside of a scan.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
};

use orchestrator_harness::dranspose::{
    Deployment, IngesterSpec, Map, Source, SourceMessage, check_scan, header, image, item,
    malformed_messages, run_program, series, series_end,
};
use serde_json::{Value, json};

use super::{BINARY, Fixture};

#[test]
fn every_event_of_four_series_is_delivered() {
    let mut fixture = Fixture::new();
    for (frames, len) in [(20, 1000), (1, 3), (40, 0), (7, 1_500_000)] {
        fixture.scan(frames, len);
    }
    assert!(fixture.ingester.terminate(), "an orderly end");
    assert_eq!(fixture.deployment.redis.text(&fixture.spec.key()), None, "the key is gone with the ingester");
}

/// A new mapping arrives during a series. The rest of the series is not part of the new scan.
#[test]
fn a_new_mapping_drops_the_rest_of_a_series() {
    let mut fixture = Fixture::new();
    let first = fixture.deployment.post_mapping(&Map::of_stream("eiger", 500));
    let all = series("first", 500, 1000);
    let sent = fixture.source.send(&all[..60]);
    fixture.deployment.wait_for_events(&first, 60);
    let delivered = check_scan(&fixture.deployment, &first, &[("eiger", "STINS", &sent)], false);
    // Both workers receive the start.
    assert!(delivered.had >= 60, "{delivered:?}");
    let second = fixture.deployment.post_mapping(&Map::of_stream("eiger", 10));
    fixture.source.send(&all[60..]);
    let sent = fixture.source.send(&series("second", 10, 1000));
    fixture.finish(&second, &sent);
    fixture.scan(5, 10);
}

/// Invalid messages, images before a start or after an end, and a start within a series are no events.
#[test]
fn messages_outside_a_scan_are_dropped() {
    let mut fixture = Fixture::new();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 6));
    fixture.source.send(&malformed_messages());
    fixture.source.send(&[image("stray", 7, 100), series_end(3)]);
    let mut sent = fixture.source.send(&[header("series")]);
    for frame in 0..6 {
        fixture.source.send(&malformed_messages());
        sent.extend(fixture.source.send(&[image("series", frame, 2000)]));
        fixture.source.send(&[header("once more")]);
    }
    sent.extend(fixture.source.send(&[series_end(6)]));
    fixture.source.send(&[image("late", 0, 100), header("next"), image("next", 0, 100), series_end(1)]);
    fixture.finish(&scan, &sent);
    fixture.scan(4, 10);
}

/// Parts with unusual but valid content are forwarded unchanged.
#[test]
fn message_parts_are_forwarded_unchanged() {
    let mut fixture = Fixture::new();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 3));
    let start =
        item(&json!({"htype": "header", "filename": "", "msg_number": "0", "extra": [1, {"a": null}]}));
    let spaced = "{ \"htype\" : \"image\", \"msg_number\":1.0,\"frame\":\"0\", \"shape\":[ 2 ],\"type\":\"u1\", \
                  \"compression\":\"none\" }";
    let items: Vec<SourceMessage> = vec![
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

/// Two streams of two ingesters: missing frames, unassigned frames, frames for two workers and for all.
#[test]
fn two_streams_with_holes_are_delivered() {
    let Fixture { mut deployment, mut source, ingester, .. } = Fixture::new();
    let mut slow = Source::push();
    let _second = deployment.start_ingester(&IngesterSpec::stins(&slow.url(), "slow"));
    deployment.wait_until_connected();
    let eiger = vec![
        Map::any_worker(0),
        Map::any_worker(1),
        Map::NO_FRAME,
        Map::no_worker(),
        Map::two_workers(0, 1),
        Map::all_workers(),
        Map::any_worker(2),
        Map::NO_FRAME,
        Map::any_worker(3),
    ];
    let other = vec![
        Map::NO_FRAME,
        Map::any_worker(1),
        Map::any_worker(5),
        Map::any_worker(6),
        Map::any_worker(1),
        Map::NO_FRAME,
        Map::no_worker(),
        Map::NO_FRAME,
        Map::all_workers(),
    ];
    let frames = |events: &[Value]| events.iter().filter(|event| !event.is_null()).count();
    let (of_eiger, of_slow) = (series("e", frames(&eiger), 500), series("s", frames(&other), 70));
    let map = Map::default().with_stream("eiger", eiger).with_stream("slow", other);
    for _ in 0..2 {
        let scan = deployment.post_mapping(&map);
        let (sent, also) = (source.send(&of_eiger), slow.send(&of_slow));
        deployment.wait_for_end(&scan);
        check_scan(&deployment, &scan, &[("eiger", "STINS", &sent), ("slow", "STINS", &also)], true);
    }
    // A mapping without the other stream: its ingester reports the end, too.
    let scan = deployment.post_mapping(&Map::of_stream("eiger", 3));
    let sent = source.send(&series("alone", 3, 10));
    deployment.wait_for_end(&scan);
    check_scan(&deployment, &scan, &[("eiger", "STINS", &sent)], true);
    drop(ingester);
}

#[test]
fn a_debug_worker_receives_its_events() {
    let mut fixture = Fixture::new();
    let port = fixture.deployment.debug_worker("debug1").to_string();
    let events =
        (0..8).map(|n| if n % 3 == 0 { Map::any_worker_and_debug(n) } else { Map::any_worker(n) }).collect();
    let scan = fixture.deployment.post_mapping(&Map::default().with_stream("eiger", events));
    let sent = fixture.source.send(&series("debugged", 8, 40));
    fixture.finish(&scan, &sent);
    let had: Value = serde_json::from_str(&run_program("debugged.py", &[&port, "20"])).expect("JSON");
    // Start and end go to all workers; event n + 1 is image n.
    let wanted: Vec<_> = [0, 1, 4, 7, 9]
        .iter()
        .map(|&n: &usize| json!({"event": n, "streams": {"eiger": {"typ": "STINS", "parts": sent[n]}}}))
        .collect();
    assert_eq!(had, json!(wanted));
}

#[test]
fn the_scan_after_a_stopped_scan_is_whole() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 100));
        let all = series("stopped", 100, 100);
        let sent = fixture.source.send(&all[..20]);
        fixture.deployment.wait_for_events(&scan, 20);
        fixture.deployment.stop_scan();
        fixture.deployment.wait_for_end(&scan);
        check_scan(&fixture.deployment, &scan, &[("eiger", "STINS", &sent)], false);
        fixture.source.send(&all[20..]);
        fixture.scan(5, 100);
    }
}

/// One worker is busy with an event. The other continues, and nothing is lost.
#[test]
fn a_busy_worker_does_not_block_the_other() {
    let mut fixture = Fixture::new();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 60));
    fixture.deployment.hold_worker("w1");
    let sent = fixture.source.send(&series("slow", 60, 5000));
    // All events but the end for w1, which is busy.
    fixture.deployment.wait_for_events(&scan, 61);
    fixture.deployment.release_worker("w1");
    fixture.finish(&scan, &sent);
}

/// A PUB source does not wait, so the ingester must have subscribed when it accepts the mapping.
#[test]
fn a_publishing_source_is_subscribed_before_the_mapping_is_accepted() {
    let mut source = Source::publish();
    let mut deployment = Deployment::start(BINARY);
    let _ingester =
        deployment.start_ingester(&IngesterSpec::class("ZmqSubXspressIngester", &source.url(), "xspress"));
    deployment.start_workers(&["w1", "w2"]);
    for round in 0..3 {
        let scan = deployment.post_mapping(&Map::of_stream("xspress", 10));
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
        deployment.wait_for_end(&scan);
        check_scan(&deployment, &scan, &[("xspress", "xspress", &sent)], true);
    }
}

/// Fault in a worker's record.
type Wrong = dyn Fn(&mut Vec<String>);

/// The check of these tests detects every kind of fault.
#[test]
fn the_scan_check_detects_every_fault() {
    let mut fixture = Fixture::new();
    // For all: so w1 has each of them.
    let scan =
        fixture.deployment.post_mapping(&Map::default().with_stream("eiger", vec![Map::all_workers(); 9]));
    let sent = fixture.source.send(&series("delivered", 9, 50));
    fixture.finish(&scan, &sent);
    let file = fixture.deployment.path().join("w1.jsonl");
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
        let delivered = catch_unwind(AssertUnwindSafe(|| fixture.finish(&scan, &sent)));
        assert!(delivered.is_err(), "not seen: {what}");
    }
    fs::write(&file, noted).expect("write it");
    fixture.finish(&scan, &sent);
    let less = catch_unwind(AssertUnwindSafe(|| fixture.finish(&scan, &sent[1..])));
    assert!(less.is_err(), "not seen: the source sent something else");
}
