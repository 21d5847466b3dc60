//! Queues on RabbitMQ: the quorum queues of 0.2.0 serve both programs. Quorum and durable queues that today's
//! program has declared have other properties, so 0.2.0 cannot use them, and changes nothing.

use std::process::{Command, Stdio};

use orchestrator_harness::{Database, Instance, ProvenanceEnv, Rabbit, eventually, former_program, sha1_of};
use serde_json::json;

use crate::{
    RELEASE,
    importer::{CONTENTS, Importer},
    installed::{Installed, Stop},
    provenance::there_and_back,
    today,
};

/// Requests that wait for a program, one for each range.
const REQUESTS: u64 = 16;

/// Environment with an SQLite store whose rows go through the queues of the virtual host at `url`.
fn environment(program: &Installed, url: &str, topology: Option<&str>) -> ProvenanceEnv {
    let env = ProvenanceEnv::new(program.path())
        .set("provenance.transport=amqp")
        .set("provenance.client.wait_min_secs=2")
        .set(&format!("provenance.amqp.url={url}"));
    topology.into_iter().fold(env, |env, topology| env.set(&format!("provenance.amqp.topology={topology}")))
}

/// Sum over the queues of requests of `what`, `messages` or `consumers`.
fn sum(vhost: &str, what: &str) -> u64 {
    let queues = Rabbit::shared().queues(vhost, what);
    queues.iter().filter(|(name, _)| name.contains("_add.")).map(|(_, count)| count).sum()
}

fn there_and_back_in_quorum_queues(vhost: &str, stop: Stop) {
    let program = Installed::new(&former_program(RELEASE));
    let env = environment(&program, &Rabbit::shared().create_vhost(vhost), Some("quorum"));
    there_and_back(&env, &program, stop, |_| ());
    eventually("empty queues", || sum(vhost, "messages") == 0);
    assert!(!env.base().log().contains("PRECONDITION_FAILED"), "{}", env.base().log());
}

#[test]
fn stops_between_0_2_0_and_today_lose_no_row_in_its_quorum_queues() {
    there_and_back_in_quorum_queues("stopped", Stop::Signal);
}

#[test]
fn kills_between_0_2_0_and_today_lose_no_row_in_its_quorum_queues() {
    there_and_back_in_quorum_queues("killed", Stop::Kill);
}

/// Leaves requests in queues that today's program has declared with `topology`. The broker refuses 0.2.0,
/// with its topology `of_0_2_0`, for `reason`, and the requests stay.
fn wait_while_0_2_0_runs(topology: &str, of_0_2_0: Option<&str>, reason: &str) {
    let url = Rabbit::shared().create_vhost(topology);
    let program = Installed::new(today());
    let env = environment(&program, &url, Some(topology));
    let instance = env.start();
    let importer = Importer::start(env.base());
    importer.await_files(1);
    let stored = u64::from(importer.finish() * CONTENTS);
    assert_eq!(env.count("content"), stored);
    leave_requests(&env, instance);
    eventually("the requests to wait", || sum(topology, "messages") == REQUESTS);

    let former = Installed::new(&former_program(RELEASE));
    let other = environment(&former, &url, of_0_2_0);
    let instance = other.start();
    eventually("the refusal", || {
        other.base().snapshot().is_some_and(|tree| tree.to_string().contains(reason))
    });
    assert_eq!(sum(topology, "consumers"), 0);
    Stop::Signal.end(instance, other.base());
    assert_eq!(sum(topology, "messages"), REQUESTS);

    let instance = env.start();
    eventually("the requests to be stored", || env.count("content") == stored + REQUESTS);
    eventually("empty queues", || sum(topology, "messages") == 0);
    Stop::Signal.end(instance, env.base());
}

/// CHANGELOG, "The way back".
#[test]
fn requests_in_quorum_queues_of_today_wait_while_0_2_0_runs() {
    wait_while_0_2_0_runs("quorum", Some("quorum"), "x-delivery-limit");
}

/// CHANGELOG, "The way back". 0.2.0 has no durable classic queues.
#[test]
fn requests_in_durable_queues_of_today_wait_while_0_2_0_runs() {
    wait_while_0_2_0_runs("durable", None, "'durable'");
}

/// Kills `instance` when the broker has delivered a request to the consumer of each range of contents, and
/// none is stored.
fn leave_requests(env: &ProvenanceEnv, instance: Instance) {
    let base = env.base();
    let lock = Database::open(&base.path().join("provenance.db"));
    lock.execute("BEGIN IMMEDIATE");
    let first = 1 << 20;
    let rows =
        (first..).take(REQUESTS as usize).map(|number| json!({"add": "content", "id": sha1_of(0, number)}));
    let mut import = Command::new(today());
    import.args(["provenance", "import", &env.file(rows)]).env("ORCHESTRATOR_SOCKET", base.admin_socket());
    let mut import = import.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start the import");
    eventually("all requests to be delivered", || {
        base.metric("provenance/amqp", "unacknowledged") == REQUESTS
    });
    instance.kill_nine();
    assert!(!import.wait().expect("it is ours").success(), "the import is not confirmed");
    lock.execute("ROLLBACK");
}
