//! A worker that stops working with all of its events in its socket.

use std::process::Command;

use orchestrator_harness::{
    dranspose::{Deployment, IngesterSpec, Map, Source, series},
    wait_for,
};
use rustix::process::Signal;

use super::BINARY;

/// The other worker has finished its events and holds back its last report, since a later event is assigned
/// to it.
///
/// dranspose's own ingester names nobody.
#[test]
fn a_frozen_worker_is_named_and_a_waiting_one_is_not() {
    let mut source = Source::push();
    let mut deployment = Deployment::start(BINARY).with_worker_code("recorder:Silent");
    let spec = IngesterSpec::stins(&source.url(), "eiger").set("worker_idle_secs=1");
    let _ingester = deployment.start_ingester(&spec);
    deployment.start_workers(&["w1", "w2"]);
    let turns = (0..6).map(|event| Map::named_worker(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = deployment.post_mapping(&Map::default().with_stream("eiger", turns));
    let all = series("idle", 6, 100);
    source.send(&all[..3]);
    // The start is for both.
    deployment.wait_for_events(&scan, 4);
    deployment.signal_worker("w2", Signal::STOP);
    source.send(&all[3..5]);
    let why = || {
        let mut command = Command::new(BINARY);
        command.args(["why", "ingester"]).env("ORCHESTRATOR_SOCKET", deployment.path().join("admin.sock"));
        String::from_utf8(command.output().expect("the binary runs").stdout).expect("UTF-8")
    };
    let text = wait_for("the frozen worker", || Some(why()).filter(|text| text.contains("has not finished")));
    assert!(text.contains("worker w2 has not finished event 4, which it got "), "{text}");
    assert!(!text.contains("more workers"), "{text}");
    deployment.signal_worker("w2", Signal::CONT);
    wait_for("no cause", || why().contains("nothing holds up work").then_some(()));
}
