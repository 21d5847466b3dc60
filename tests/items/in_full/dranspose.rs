//! Mappings and events of a scan with the real dranspose.

use std::os::unix::fs::symlink;

use orchestrator_harness::{
    TestEnv,
    dranspose::{Deployment, IngesterSpec, Map, Source, series},
};
use rustix::process::Signal;

use crate::{BINARY, asks};

/// Events, each with an image of this many bytes. The sockets hold less than half of those for the stopped
/// worker.
const EVENTS: usize = 60;
const IMAGE: usize = 1 << 20;

#[test]
fn a_mapping_is_followed_from_its_start_to_its_end() {
    let mut source = Source::push();
    let mut deployment = Deployment::start(BINARY).with_worker_code("recorder:Silent");
    let spec = IngesterSpec::stins(&source.url(), "eiger");
    let _ingester = deployment.start_ingester(&spec);
    let env = TestEnv::new(BINARY);
    symlink(deployment.path().join("admin.sock"), env.admin_socket()).expect("a link to the socket");
    deployment.start_workers(&["w1", "w2"]);
    let turns = (0..EVENTS).map(|event| Map::named_worker(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = deployment.post_mapping(&Map::default().with_stream("eiger", turns));
    let all = series("explained", EVENTS, IMAGE);
    let uuid = scan.uuid.clone();
    let begins =
        ["waits for the start message of stream eiger", "next chance: unknown, as soon as stream eiger"];
    asks(&env, "a mapping waits for a stream", &uuid, 0, &begins);
    source.send(&all[..3]);
    deployment.wait_for_events(&scan, 4);
    asks(&env, "an event is sent", &format!("{uuid}#1"), 0, &["#1: was sent"]);
    deployment.signal_worker("w2", Signal::STOP);
    source.start_send(&all[3..]);
    let queued = ["for worker w2", "do: orchestrator ingester status; restart worker w2"];
    asks(&env, "an event waits in the queue of a worker", &format!("{uuid}#{EVENTS}"), 1, &queued);
    let stopped = ["worker w2 reads nothing: ", "do: orchestrator ingester status; restart worker w2"];
    asks(&env, "a worker of a mapping takes nothing", &uuid, 1, &stopped);
    deployment.signal_worker("w2", Signal::CONT);
    source.wait_sent();
    let whole = ["ended whole, finished by the controller: 62 of 62 assigned events were sent"];
    asks(&env, "a mapping ended whole", &uuid[..13], 0, &whole);
    let unknown = [
        "nothing is known of 00000000-0000-4000-8000-000000000000",
        "the last mappings of ingester eiger-ingester",
    ];
    asks(&env, "no ingester knows the mapping", "00000000-0000-4000-8000-000000000000", 2, &unknown);
}
