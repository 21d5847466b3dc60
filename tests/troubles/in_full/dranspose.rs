//! A worker of the real dranspose that is stopped while frames come.

use std::os::unix::fs::symlink;

use orchestrator_harness::{
    TestEnv,
    dranspose::{Deployment, IngesterSpec, Map, Source, series},
    eventually,
};
use rustix::process::Signal;

use crate::{
    BINARY,
    answer::{Trouble, run_help},
};

/// Events, each with an image of this many bytes. The sockets hold less than half of those for the stopped
/// worker.
const EVENTS: usize = 60;
const IMAGE: usize = 1 << 20;

#[test]
fn a_stopped_worker_is_named_with_what_waits_for_it() {
    let mut source = Source::push();
    let mut deployment = Deployment::start(BINARY).with_worker_code("recorder:Silent");
    let spec = IngesterSpec::stins(&source.url(), "eiger");
    let _ingester = deployment.start_ingester(&spec);
    let env = TestEnv::new(BINARY);
    symlink(deployment.path().join("admin.sock"), env.admin_socket()).expect("a link to the socket");
    deployment.start_workers(&["w1", "w2"]);
    let turns = (0..EVENTS + 2).map(|event| Map::named_worker(["w1", "w2"][event % 2], event % 2)).collect();
    let scan = deployment.post_mapping(&Map::default().with_stream("eiger", turns));
    let all = series("stopped", EVENTS, IMAGE);
    source.send(&all[..3]);
    // The start is for both.
    deployment.wait_for_events(&scan, 4);
    deployment.signal_worker("w2", Signal::STOP);
    let trouble = Trouble::begins("a dranspose worker reads nothing");
    source.start_send(&all[3..]);
    let cause = trouble.shows_first(&env, "ingester", "worker w2 reads nothing: ");
    assert!(cause.help.starts_with("orchestrator ingester status; restart worker w2"), "{cause:?}");
    assert!(run_help(&env, &cause.help).contains("w2"), "{cause:?}");
    deployment.signal_worker("w2", Signal::CONT);
    source.wait_sent();
    eventually("no cause", || !env.why("ingester").contains("reads nothing"));
}
