//! A busy worker with more queued frames than the sockets hold.

use orchestrator_harness::{
    dranspose::{Map, Scan, series},
    eventually,
};
use serde_json::Value;

use super::Fixture;

const FRAMES: usize = 4000;

/// Sends a scan whose images go to w2 (three of four) and w1. Blocks w2 at its first one; w1 has received all
/// of its own.
fn queue_frames(fixture: &mut Fixture) -> (Scan, Vec<Value>) {
    let slot = |event| if event % 4 == 0 { Map::named_worker("w1", 1) } else { Map::named_worker("w2", 2) };
    let scan = fixture
        .deployment
        .post_mapping(&Map::default().with_stream("eiger", (0..FRAMES).map(slot).collect()));
    let all = series("many", FRAMES, 15_000);
    let mut sent = fixture.source.send(&all[..3]);
    // Both workers have the start and one event.
    fixture.deployment.wait_for_events(&scan, 4);
    fixture.deployment.hold_worker("w2");
    sent.extend(fixture.source.send(&all[3..]));
    let own = FRAMES / 4 + 1;
    eventually("the other worker to have all of its own", || {
        fixture.deployment.recorded_events("w1", &scan).len() >= own
    });
    (scan, sent)
}

/// The other worker is not blocked, and nothing is lost.
///
/// dranspose's own ingester blocks all workers once the queue of one is full.
#[test]
fn a_busy_worker_receives_all_of_its_frames() {
    let mut fixture = Fixture::new();
    let (scan, sent) = queue_frames(&mut fixture);
    fixture.deployment.release_worker("w2");
    fixture.finish(&scan, &sent);
}

/// Frames that are queued when a new mapping arrives do not reach the new scan.
///
/// dranspose's own ingester cannot run this test, for the reason above.
#[test]
fn a_new_mapping_drops_frames_queued_for_a_busy_worker() {
    let mut fixture = Fixture::new();
    queue_frames(&mut fixture);
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 20));
    fixture.deployment.release_worker("w2");
    let sent = fixture.source.send(&series("new", 20, 100));
    fixture.finish(&scan, &sent);
    fixture.scan(10, 100);
}
