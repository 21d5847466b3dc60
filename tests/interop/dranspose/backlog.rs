//! Frames pile up for a worker that is busy: more than sockets and kernel hold.

use orchestrator_harness::{
    dranspose::{Map, Scan, series},
    eventually,
};
use serde_json::Value;

use super::Fixture;

const FRAMES: usize = 4000;

/// A scan of which w2 is to have three of four images; it stays with the first of them. All is sent, and w1 has all of its own.
fn pile_up(fixture: &mut Fixture) -> (Scan, Vec<Value>) {
    let slot = |event| if event % 4 == 0 { Map::named_worker("w1", 1) } else { Map::named_worker("w2", 2) };
    let scan = fixture
        .deployment
        .post_mapping(&Map::default().with_stream("eiger", (0..FRAMES).map(slot).collect()));
    let all = series("many", FRAMES, 15_000);
    let mut sent = fixture.source.send(&all[..3]);
    // The start for both, and one event each.
    fixture.deployment.wait_for_events(&scan, 4);
    fixture.deployment.hold_worker("w2");
    sent.extend(fixture.source.send(&all[3..]));
    let own = FRAMES / 4 + 1;
    eventually("the other worker to have all of its own", || {
        fixture.deployment.recorded_events("w1", &scan).len() >= own
    });
    (scan, sent)
}

/// The other worker does not wait, and nothing is lost.
///
/// dranspose's own ingester waits for the busy one as soon as its queue is full, and so do all.
#[test]
fn a_busy_worker_receives_all_of_its_frames() {
    let mut fixture = Fixture::new();
    let (scan, sent) = pile_up(&mut fixture);
    fixture.deployment.release_worker("w2");
    fixture.finish(&scan, &sent);
}

/// What waits for a worker when a new map comes, here and on the way, is not taken for frames of the new scan.
///
/// With dranspose's own it does not come to that, for the reason above.
#[test]
fn a_new_mapping_drops_frames_queued_for_a_busy_worker() {
    let mut fixture = Fixture::new();
    pile_up(&mut fixture);
    let scan = fixture.deployment.post_mapping(&Map::of_stream("eiger", 20));
    fixture.deployment.release_worker("w2");
    let sent = fixture.source.send(&series("new", 20, 100));
    fixture.finish(&scan, &sent);
    fixture.scan(10, 100);
}
