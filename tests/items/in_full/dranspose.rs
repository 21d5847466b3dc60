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
    let begins = [
        "mapping ingester/",
        "in progress",
        "assigned events wait for frames or workers",
        "next chance: unknown",
    ];
    asks(&env, "a mapping waits for frames", &uuid, 0, &begins);
    source.send(&all[..3]);
    deployment.wait_for_events(&scan, 4);
    asks(&env, "an event is sent", &format!("{uuid}#1"), 0, &["sent to its workers"]);
    deployment.signal_worker("w2", Signal::STOP);
    source.start_send(&all[3..]);
    let stopped = [
        "worker w2 reads nothing: ",
        "worker w2 has not taken ",
        "do: orchestrator ingester status; restart worker w2",
    ];
    asks(&env, "a worker of a mapping takes nothing", &uuid, 1, &stopped);
    let queued = ["in the queues of its workers, or sent", "worker w2 has not taken "];
    asks(&env, "an event is in the queue of a worker", &format!("{uuid}#{EVENTS}"), 0, &queued);
    deployment.signal_worker("w2", Signal::CONT);
    source.wait_sent();
    asks(
        &env,
        "a mapping is finished",
        &uuid[..13],
        0,
        &["finished by the controller", "62 of 62 assigned events"],
    );
    asks(
        &env,
        "an event of a finished mapping was assigned to nobody",
        &format!("{uuid}#99"),
        0,
        &["assigned to nobody"],
    );
    let unknown =
        ["nothing is known of 00000000-0000-4000-8000-000000000000", "searched the last 1 mappings"];
    asks(&env, "no ingester knows the mapping", "00000000-0000-4000-8000-000000000000", 2, &unknown);
}
