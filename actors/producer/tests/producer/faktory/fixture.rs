//! A tree with the connections and nothing else, and jobs for them.

use std::{ops::Range, time::Duration};

use orchestrator_edge::set_retry_max;
use orchestrator_producer::{
    batch::Batch,
    edge::faktory::{Faktory, Flow, Patience, Server, child_spec},
    id::Id,
    job::{Jid, Job, JobWriter, Terms},
    pair::Pair,
};
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{LinkSnapshot, NodeSnapshot, Strategy, SupervisorSpec, Tree};
use serde_json::{Value, json};

/// Time-outs of tests in which a server never greets.
pub(crate) const SHORT: Patience = Patience {
    connect: Duration::from_secs(5),
    handshake: Duration::from_millis(300),
    reply: Duration::from_secs(15),
    idle: Duration::from_secs(5),
};

/// Time-outs of tests in which a server does not reply; a busy machine must still get through the handshake.
pub(crate) const IMPATIENT: Patience = Patience {
    connect: Duration::from_secs(5),
    handshake: Duration::from_secs(5),
    reply: Duration::from_millis(500),
    idle: Duration::from_secs(5),
};

/// One connection to `url`.
pub(crate) fn to(url: &str) -> (Faktory, SupervisorSpec) {
    with(Server::new(url, None, None).unwrap(), Flow::default())
}

/// Connections to `server`. Tests that break many connections in a row wait this long for each, at the most.
pub(crate) fn with(server: Server, flow: Flow) -> (Faktory, SupervisorSpec) {
    set_retry_max(Duration::from_millis(200));
    let (faktory, connections) = child_spec(server, flow);
    (faktory, SupervisorSpec::new(Strategy::OneForOne).child(connections))
}

/// Job `number`; its key has another identifier for each attempt.
pub(crate) fn job(number: u32, attempt: u32) -> Job {
    let mut id = [0; 12];
    id[8..].copy_from_slice(&number.to_be_bytes());
    let pair = Pair { root_id: Id(id), root_tcn: 3, scion_id: Id([0xab; 12]), scion_tcn: 4, page_size: 500 };
    Job { jid: Jid::derived(&pair, 1, attempt), pair, keyed: true }
}

/// A batch of jobs.
pub(crate) fn batch(numbers: Range<u32>) -> Batch {
    let writer = JobWriter::new(&Terms::default()).unwrap();
    let mut batch = Batch::with_room_for(numbers.len());
    numbers.for_each(|number| batch.add(&writer, &job(number, 0)).unwrap());
    batch
}

/// Numbers of jobs that a server has taken.
pub(crate) fn numbers(accepted: &[Value]) -> Vec<u32> {
    let number = |job: &Value| u32::from_str_radix(&job["args"][0].as_str().unwrap()[16..], 16).unwrap();
    accepted.iter().map(number).collect()
}

/// What a server must have of job `number`.
pub(crate) fn wanted(number: u32) -> Value {
    let Job { jid, pair, .. } = job(number, 0);
    json!({
        "jid": jid.to_string(), "jobtype": "arbor_job", "queue": "arborescent", "retry": 25, "reserve_for": 1800,
        "backtrace": 5, "args": serde_json::to_value(pair.args()).unwrap(), "custom": {"key": pair.to_string()},
    })
}

/// A connection's place in the tree. Whatever happened to its server, it has never ended.
pub(crate) fn node(tree: &Tree, connection: usize) -> NodeSnapshot {
    let node = tree.node(&format!("faktory/{connection}")).unwrap();
    assert_eq!(node.incarnation, 1, "a server that is away, or strange, is no crash");
    node
}

pub(crate) fn link(tree: &Tree, connection: usize) -> LinkSnapshot {
    node(tree, connection).link.unwrap()
}

/// Waits until the first connection is up.
pub(crate) async fn up(tree: &Tree) {
    eventually("the link is up", || is_up(tree, 0)).await;
}

pub(crate) fn is_up(tree: &Tree, connection: usize) -> bool {
    node(tree, connection).link.is_some_and(|link| link.state == "up")
}

/// Waits until the first connection is down because of `said`; the whole reason.
pub(crate) async fn down(tree: &Tree, said: &str) -> String {
    let reason = || node(tree, 0).link.and_then(|link| link.reason).unwrap_or_default();
    eventually(&format!("the link is down: {said}"), || reason().contains(said)).await;
    reason()
}

pub(crate) fn metric(tree: &Tree, name: &str) -> i64 {
    let node = node(tree, 0);
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

/// Is `future` not done at its first poll?
pub(crate) async fn pends(future: impl Future) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = std::future::ready(()) => true,
    }
}
