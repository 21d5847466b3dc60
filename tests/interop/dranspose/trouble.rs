//! Processes that are killed, or end and come back: the next scan is whole.

use orchestrator_harness::{
    dranspose::{Map, Source, judge, series},
    eventually,
};

use super::House;

/// A worker is killed with frames on their way to it. The others have all of theirs, and the next scan is whole.
///
/// dranspose's own ingester ends its work in silence at the first frame for the dead worker, and leaves its connection to the source
/// open beside the next one, which then gets every second message only.
#[test]
fn a_worker_is_killed_in_the_middle_of_a_scan() {
    let mut house = House::new();
    // Both are assigned to all of their events from the second event on.
    let turns = (0..40).map(|event| Map::own(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = house.facility.post(&Map::default().and("eiger", turns));
    let all = series("killed", 40, 3000);
    let mut sent = house.source.send(&all[..10]);
    // The start is for both.
    house.facility.begun(&scan, 11);
    house.facility.kill_worker("w2");
    sent.extend(house.source.send(&all[10..]));
    // The start and every second image. Whether the end is still assigned depends on whom the controller believes to be there.
    eventually("the other worker to have its events", || house.facility.recorded("w1", &scan).len() >= 21);
    judge(&house.facility, &scan, &[("eiger", "STINS", &sent)], false);
    house.facility.ready();
    house.scan(10, 100);
    // It comes back with its name.
    house.facility.workers(&["w2"]);
    house.scan(20, 100);
}

/// A worker is killed and started again at once, with its name: the old one is still known, for ten seconds.
#[test]
fn a_worker_is_back_at_once() {
    let mut house = House::new();
    for _ in 0..2 {
        house.scan(10, 100);
        house.facility.replace_worker("w2");
    }
    let scan = house.facility.post(&Map::each("eiger", 30));
    let all = series("replaced", 30, 3000);
    house.source.send(&all[..10]);
    house.facility.begun(&scan, 10);
    house.facility.replace_worker("w2");
    house.scan(10, 100);
}

/// No frame meets the dead worker here.
#[test]
fn a_worker_is_killed_between_scans() {
    let mut house = House::new();
    house.scan(10, 100);
    house.facility.kill_worker("w1");
    house.facility.ready();
    house.scan(10, 100);
    house.facility.workers(&["w1", "w3"]);
    house.scan(20, 100);
}

#[test]
fn the_ingester_ends_in_order_and_is_elsewhere_afterwards() {
    let mut house = House::new();
    house.scan(10, 100);
    for _ in 0..2 {
        assert!(house.ingester.terminate(), "an orderly end");
        house.spec = house.spec.elsewhere();
        house.ingester = house.facility.ingester(&house.spec);
        house.facility.ready();
        house.scan(10, 100);
    }
}

/// The workers' old sockets dial the new process before the workers know of it, with the same names as the new ones.
///
/// dranspose's own ingester refuses a new one if the old one's end has not come before it, and then cannot reach that worker any
/// more: it is a matter of luck.
#[test]
fn the_ingester_is_killed_and_back_on_the_same_port() {
    let mut house = House::new();
    house.scan(10, 100);
    for _ in 0..2 {
        house.ingester.kill_nine();
        house.ingester = house.facility.ingester(&house.spec);
        house.facility.ready();
        house.scan(10, 100);
    }
}

/// It is killed in the middle of a scan: that scan cannot go on, the next one is whole.
///
/// With dranspose's own the same luck is needed.
#[test]
fn the_ingester_is_killed_in_the_middle_of_a_scan() {
    let mut house = House::new();
    let scan = house.facility.post(&Map::each("eiger", 50));
    let all = series("killed", 50, 3000);
    house.source.send(&all[..20]);
    house.facility.begun(&scan, 20);
    house.ingester.kill_nine();
    house.ingester = house.facility.ingester(&house.spec);
    house.facility.ready();
    house.facility.stop_scan();
    house.facility.finished(&scan);
    house.scan(10, 100);
}

/// It ends in order in the middle of a scan: it does not wait for frames.
#[test]
fn the_ingester_ends_in_the_middle_of_a_scan() {
    let mut house = House::new();
    let scan = house.facility.post(&Map::each("eiger", 50));
    house.source.send(&series("ended", 50, 3000)[..20]);
    house.facility.begun(&scan, 20);
    assert!(house.ingester.terminate(), "an orderly end");
    house.spec = house.spec.elsewhere();
    house.ingester = house.facility.ingester(&house.spec);
    house.facility.ready();
    house.scan(10, 100);
}

/// The source is not there when the map is taken, and goes away between scans.
#[test]
fn the_source_comes_and_goes() {
    let mut house = House::new();
    house.scan(5, 100);
    let url = house.source.url();
    drop(house.source);
    let scan = house.facility.post(&Map::each("eiger", 5));
    house.source = Source::push_at(&url);
    let sent = house.source.send(&series("late", 5, 100));
    house.facility.finished(&scan);
    judge(&house.facility, &scan, &[("eiger", "STINS", &sent)], true);
    // In mid-scan: what it had not sent it sends when it is back.
    let scan = house.facility.post(&Map::each("eiger", 20));
    let all = series("broken", 20, 100);
    let mut sent = house.source.send(&all[..10]);
    house.facility.begun(&scan, 11);
    drop(house.source);
    house.source = Source::push_at(&url);
    sent.extend(house.source.send(&all[10..]));
    house.finish(&scan, &sent);
}
