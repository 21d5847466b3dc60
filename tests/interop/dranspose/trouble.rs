//! Processes that are killed, or end and come back: the next scan is whole.

use orchestrator_harness::{
    dranspose::{Map, Source, judge, series},
    eventually,
};

use super::Fixture;

/// A worker is killed with frames on their way to it. The others have all of theirs, and the next scan is whole.
///
/// dranspose's own ingester ends its work in silence at the first frame for the dead worker, and leaves its connection to the source
/// open beside the next one, which then gets every second message only.
#[test]
fn a_worker_is_killed_in_the_middle_of_a_scan() {
    let mut fixture = Fixture::new();
    // Both are assigned to all of their events from the second event on.
    let turns = (0..40).map(|event| Map::own(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = fixture.facility.post(&Map::default().and("eiger", turns));
    let all = series("killed", 40, 3000);
    let mut sent = fixture.source.send(&all[..10]);
    // The start is for both.
    fixture.facility.begun(&scan, 11);
    fixture.facility.kill_worker("w2");
    sent.extend(fixture.source.send(&all[10..]));
    // The start and every second image. Whether the end is still assigned depends on whom the controller believes to be there.
    eventually("the other worker to have its events", || fixture.facility.recorded("w1", &scan).len() >= 21);
    judge(&fixture.facility, &scan, &[("eiger", "STINS", &sent)], false);
    fixture.facility.ready();
    fixture.scan(10, 100);
    // It comes back with its name.
    fixture.facility.workers(&["w2"]);
    fixture.scan(20, 100);
}

/// A worker is killed and started again at once, with its name: the old one is still known, for ten seconds.
#[test]
fn a_worker_is_back_at_once() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.scan(10, 100);
        fixture.facility.replace_worker("w2");
    }
    let scan = fixture.facility.post(&Map::each("eiger", 30));
    let all = series("replaced", 30, 3000);
    fixture.source.send(&all[..10]);
    fixture.facility.begun(&scan, 10);
    fixture.facility.replace_worker("w2");
    fixture.scan(10, 100);
}

/// No frame meets the dead worker here.
#[test]
fn a_worker_is_killed_between_scans() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    fixture.facility.kill_worker("w1");
    fixture.facility.ready();
    fixture.scan(10, 100);
    fixture.facility.workers(&["w1", "w3"]);
    fixture.scan(20, 100);
}

#[test]
fn the_ingester_ends_in_order_and_is_elsewhere_afterwards() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    for _ in 0..2 {
        assert!(fixture.ingester.terminate(), "an orderly end");
        fixture.spec = fixture.spec.elsewhere();
        fixture.ingester = fixture.facility.ingester(&fixture.spec);
        fixture.facility.ready();
        fixture.scan(10, 100);
    }
}

/// The workers' old sockets dial the new process before the workers know of it, with the same names as the new ones.
///
/// dranspose's own ingester refuses a new one if the old one's end has not come before it, and then cannot reach that worker any
/// more: it is a matter of luck.
#[test]
fn the_ingester_is_killed_and_back_on_the_same_port() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    for _ in 0..2 {
        fixture.ingester.kill_nine();
        fixture.ingester = fixture.facility.ingester(&fixture.spec);
        fixture.facility.ready();
        fixture.scan(10, 100);
    }
}

/// It is killed in the middle of a scan: that scan cannot go on, the next one is whole.
///
/// With dranspose's own the same luck is needed.
#[test]
fn the_ingester_is_killed_in_the_middle_of_a_scan() {
    let mut fixture = Fixture::new();
    let scan = fixture.facility.post(&Map::each("eiger", 50));
    let all = series("killed", 50, 3000);
    fixture.source.send(&all[..20]);
    fixture.facility.begun(&scan, 20);
    fixture.ingester.kill_nine();
    fixture.ingester = fixture.facility.ingester(&fixture.spec);
    fixture.facility.ready();
    fixture.facility.stop_scan();
    fixture.facility.finished(&scan);
    fixture.scan(10, 100);
}

/// It ends in order in the middle of a scan: it does not wait for frames.
#[test]
fn the_ingester_ends_in_the_middle_of_a_scan() {
    let mut fixture = Fixture::new();
    let scan = fixture.facility.post(&Map::each("eiger", 50));
    fixture.source.send(&series("ended", 50, 3000)[..20]);
    fixture.facility.begun(&scan, 20);
    assert!(fixture.ingester.terminate(), "an orderly end");
    fixture.spec = fixture.spec.elsewhere();
    fixture.ingester = fixture.facility.ingester(&fixture.spec);
    fixture.facility.ready();
    fixture.scan(10, 100);
}

/// The source is not there when the map is taken, and goes away between scans.
#[test]
fn the_source_comes_and_goes() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    let url = fixture.source.url();
    drop(fixture.source);
    let scan = fixture.facility.post(&Map::each("eiger", 5));
    fixture.source = Source::push_at(&url);
    let sent = fixture.source.send(&series("late", 5, 100));
    fixture.facility.finished(&scan);
    judge(&fixture.facility, &scan, &[("eiger", "STINS", &sent)], true);
    // In mid-scan: what it had not sent it sends when it is back.
    let scan = fixture.facility.post(&Map::each("eiger", 20));
    let all = series("broken", 20, 100);
    let mut sent = fixture.source.send(&all[..10]);
    fixture.facility.begun(&scan, 11);
    drop(fixture.source);
    fixture.source = Source::push_at(&url);
    sent.extend(fixture.source.send(&all[10..]));
    fixture.finish(&scan, &sent);
}
