//! Kills and restarts of workers, ingester and source. The next scan is whole.

use orchestrator_harness::{
    dranspose::{Map, Source, check_scan, series},
    eventually,
};

use super::Fixture;

/// A worker is killed with frames in flight. The other worker receives all of its frames, and the next scan
/// is whole.
///
/// dranspose's own ingester stops at the first frame for the dead worker and keeps its connection to the
/// source, so that its next connection receives only every second message.
#[test]
fn the_other_worker_survives_a_kill_during_a_scan() {
    let mut fixture = Fixture::new();
    // The workers take turns.
    let turns = (0..40).map(|event| Map::named_worker(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = fixture.deployment.post_mapping(&Map::default().with_stream("eiger", turns));
    let all = series("killed", 40, 3000);
    let mut sent = fixture.source.send(&all[..10]);
    // The start is for both.
    fixture.deployment.wait_for_events(&scan, 11);
    fixture.deployment.kill_worker("w2");
    sent.extend(fixture.source.send(&all[10..]));
    // The start and every second image; the end may not be assigned any more.
    eventually("the other worker to have its events", || {
        fixture.deployment.recorded_events("w1", &scan).len() >= 21
    });
    check_scan(&fixture.deployment, &scan, &[("eiger", "STINS", &sent)], false);
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
    // A new worker with the same name.
    fixture.deployment.start_workers(&["w2"]);
    fixture.scan(20, 100);
}

/// A worker is killed and restarted with its name at once, while the old one is still registered for 10 s.
#[test]
fn a_worker_restarted_at_once_receives_the_next_scan() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.scan(10, 100);
        fixture.deployment.replace_worker("w2");
    }
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 30));
    let all = series("replaced", 30, 3000);
    fixture.source.send(&all[..10]);
    fixture.deployment.wait_for_events(&scan, 10);
    fixture.deployment.replace_worker("w2");
    fixture.scan(10, 100);
}

/// No frame is in flight to the killed worker.
#[test]
fn the_next_scan_survives_a_worker_kill() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    fixture.deployment.kill_worker("w1");
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
    fixture.deployment.start_workers(&["w1", "w3"]);
    fixture.scan(20, 100);
}

#[test]
fn an_ingester_restarted_on_another_port_is_found() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    for _ in 0..2 {
        assert!(fixture.ingester.terminate(), "a clean exit");
        fixture.spec = fixture.spec.with_new_port();
        fixture.ingester = fixture.deployment.start_ingester(&fixture.spec);
        fixture.deployment.wait_until_connected();
        fixture.scan(10, 100);
    }
}

/// The workers' old sockets reconnect to the new process before the new ones, with the same names.
///
/// dranspose's own ingester refuses the new connection if the old one has not closed before, and then cannot
/// reach that worker any more.
#[test]
fn an_ingester_killed_and_restarted_on_its_port_is_found() {
    let mut fixture = Fixture::new();
    fixture.scan(10, 100);
    for _ in 0..2 {
        fixture.ingester.kill_nine();
        fixture.ingester = fixture.deployment.start_ingester(&fixture.spec);
        fixture.deployment.wait_until_connected();
        fixture.scan(10, 100);
    }
}

/// The scan of a killed ingester cannot continue; the next one is whole.
///
/// dranspose's own ingester may fail as above.
#[test]
fn the_next_scan_survives_an_ingester_kill() {
    let mut fixture = Fixture::new();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 50));
    let all = series("killed", 50, 3000);
    fixture.source.send(&all[..20]);
    fixture.deployment.wait_for_events(&scan, 20);
    fixture.ingester.kill_nine();
    fixture.ingester = fixture.deployment.start_ingester(&fixture.spec);
    fixture.deployment.wait_until_connected();
    fixture.deployment.stop_scan();
    fixture.deployment.wait_for_end(&scan);
    fixture.scan(10, 100);
}

/// A stop during a scan does not wait for frames.
#[test]
fn an_ingester_stops_during_a_scan_without_waiting_for_frames() {
    let mut fixture = Fixture::new();
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 50));
    fixture.source.send(&series("ended", 50, 3000)[..20]);
    fixture.deployment.wait_for_events(&scan, 20);
    assert!(fixture.ingester.terminate(), "a clean exit");
    fixture.spec = fixture.spec.with_new_port();
    fixture.ingester = fixture.deployment.start_ingester(&fixture.spec);
    fixture.deployment.wait_until_connected();
    fixture.scan(10, 100);
}

/// The source is missing when the mapping is accepted, and restarts during a scan.
#[test]
fn a_restarted_source_resumes_the_scan() {
    let mut fixture = Fixture::new();
    fixture.scan(5, 100);
    let url = fixture.source.url();
    drop(fixture.source);
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 5));
    fixture.source = Source::push_at(&url);
    let sent = fixture.source.send(&series("late", 5, 100));
    fixture.deployment.wait_for_end(&scan);
    check_scan(&fixture.deployment, &scan, &[("eiger", "STINS", &sent)], true);
    // During a scan it sends the rest after its restart.
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 20));
    let all = series("broken", 20, 100);
    let mut sent = fixture.source.send(&all[..10]);
    fixture.deployment.wait_for_events(&scan, 11);
    drop(fixture.source);
    fixture.source = Source::push_at(&url);
    sent.extend(fixture.source.send(&all[10..]));
    fixture.finish(&scan, &sent);
}
