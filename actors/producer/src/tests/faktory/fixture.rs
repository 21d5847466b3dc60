//! Tree with a pool of connections, and jobs for it.

use std::{ops::Range, time::Duration};

use orchestrator_edge::PeerError;
use orchestrator_observe::{LinkSnapshot, LinkStatus, NodeSnapshot};
use orchestrator_producer_rules::{
    batch::Batch,
    id::Id,
    job::{Jid, Job, JobOptions, JobWriter},
    pair::Pair,
};
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{Strategy, SupervisorSpec, Tree};
use serde_json::{Value, json};

use crate::{
    edge::faktory::{Faktory, PoolOptions, Server, Timeouts, child_spec},
    queue::Unacknowledged,
};

/// Time-outs for a server that sends no greeting.
pub(crate) const SHORT_HANDSHAKE: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    handshake: Duration::from_millis(300),
    reply: Duration::from_secs(15),
    idle: Duration::from_secs(5),
};

/// Time-outs for a server that does not reply. The handshake has more time, for a busy machine.
pub(crate) const SHORT_REPLY: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    handshake: Duration::from_secs(5),
    reply: Duration::from_millis(500),
    idle: Duration::from_secs(5),
};

/// A pool with one connection to `url`.
pub(crate) fn to(url: &str) -> (Faktory, SupervisorSpec) {
    with(Server::new(url, None, None).unwrap(), PoolOptions::default())
}

/// The pool has short delays between attempts.
pub(crate) fn with(server: Server, options: PoolOptions) -> (Faktory, SupervisorSpec) {
    let (faktory, connections) = child_spec(server, options);
    let tree = SupervisorSpec::new(Strategy::OneForOne).link_retry_max(Duration::from_millis(200));
    (faktory, tree.child(connections))
}

/// The jid is different for each attempt.
pub(crate) fn job(number: u32, attempt: u32) -> Job {
    let mut id = [0; 12];
    id[8..].copy_from_slice(&number.to_be_bytes());
    let pair = Pair { root_id: Id(id), root_tcn: 3, scion_id: Id([0xab; 12]), scion_tcn: 4, page_size: 500 };
    Job { jid: Jid::derived(&pair, 1, attempt), pair, keyed: true }
}

pub(crate) fn batch(numbers: Range<u32>) -> Batch {
    let writer = JobWriter::new(&JobOptions::default()).unwrap();
    let mut batch = Batch::with_room_for(numbers.len());
    numbers.for_each(|number| assert!(batch.add(&writer, &job(number, 0))));
    batch
}

/// Pushes a batch over one connection and waits for the result.
pub(crate) async fn push(
    faktory: &Faktory,
    connection: usize,
    batch: Batch,
) -> Result<Option<Unacknowledged>, PeerError> {
    faktory.submit(connection, batch).await.await
}

pub(crate) fn numbers(accepted: &[Value]) -> Vec<u32> {
    let number = |job: &Value| u32::from_str_radix(&job["args"][0].as_str().unwrap()[16..], 16).unwrap();
    accepted.iter().map(number).collect()
}

/// The job as a server must receive it.
pub(crate) fn expected(number: u32) -> Value {
    let Job { jid, pair, .. } = job(number, 0);
    json!({
        "jid": jid.to_string(), "jobtype": "arbor_job", "queue": "arborescent", "retry": 25, "reserve_for": 1800,
        "backtrace": 5, "args": serde_json::to_value(pair.args()).unwrap(), "custom": {"key": pair.to_string()},
    })
}

/// Checks that the child was never restarted.
pub(crate) fn node(tree: &Tree, connection: usize) -> NodeSnapshot {
    let node = tree.node(&format!("faktory/{connection}")).unwrap();
    assert_eq!(node.incarnation, 1, "an unavailable or incorrect server restarts no child");
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
    node(tree, connection).link.is_some_and(|link| link.state == LinkStatus::Up)
}

/// Waits until the first connection is down with `text` in its reason. Returns the reason.
pub(crate) async fn down(tree: &Tree, text: &str) -> String {
    let reason = || node(tree, 0).link.and_then(|link| link.reason).unwrap_or_default();
    eventually(&format!("the link is down: {text}"), || reason().contains(text)).await;
    reason()
}

pub(crate) fn metric(tree: &Tree, name: &str) -> i64 {
    let node = node(tree, 0);
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

/// True if `future` is pending at its first poll.
pub(crate) async fn is_pending(future: impl Future) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = std::future::ready(()) => true,
    }
}
