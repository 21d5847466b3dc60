//! A tree with the connections and nothing else, and requests for them.

use std::{borrow::Borrow, time::Duration};

use bytes::Bytes;
use orchestrator_catalog::{
    edge::{
        credentials::Source,
        http::{HttpCatalog, Patience, Place, child_spec},
    },
    lane::{Purpose, Turn},
    service::{Get, Put, Reply, Service, Trouble},
};
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{
    LinkSnapshot, MetricSnapshot, NodeSnapshot, Shutdown, Strategy, SupervisorSpec, Tree,
};
use serde_json::Value;

/// Time-outs of tests in which a server does not answer; a busy machine must still be connected to.
pub(crate) const IMPATIENT: Patience = Patience {
    connect: Duration::from_secs(6),
    read: Duration::from_secs(2),
    idle: Duration::from_secs(30),
    aborted: Duration::from_secs(60),
    hold_max: Duration::from_secs(60),
    away_max: Duration::from_secs(60),
};

/// Turn of all writes.
pub(crate) const TURN: Turn = Turn { purpose: Purpose::Claim, priority: 0 };

pub(crate) fn place(base: &str) -> Place {
    Place::new(base, None, &[]).unwrap()
}

/// The catalog at `base`, asked by nobody in particular.
pub(crate) fn to(base: &str) -> (HttpCatalog, SupervisorSpec) {
    with(place(base), Source::Anonymous)
}

pub(crate) fn with(place: Place, source: Source) -> (HttpCatalog, SupervisorSpec) {
    let (catalog, child) = child_spec(place, source);
    (catalog, SupervisorSpec::new(Strategy::OneForOne).child(child))
}

/// As [`to`]; a restart does not wait for what is under way.
pub(crate) fn hasty(base: &str) -> (HttpCatalog, SupervisorSpec) {
    let (catalog, child) = child_spec(place(base), Source::Anonymous);
    (catalog, SupervisorSpec::new(Strategy::OneForOne).child(child.shutdown(Shutdown::Kill)))
}

pub(crate) async fn get(catalog: &HttpCatalog, path: &str) -> Result<Reply, Trouble> {
    catalog.get(Get { path: path.to_owned(), if_none_match: None }).await
}

pub(crate) async fn put(
    catalog: &HttpCatalog,
    path: &str,
    body: impl Borrow<Value>,
) -> Result<Reply, Trouble> {
    put_if(catalog, path, body, None).await
}

pub(crate) async fn put_if(
    catalog: &HttpCatalog,
    path: &str,
    body: impl Borrow<Value>,
    if_match: Option<String>,
) -> Result<Reply, Trouble> {
    let body = Bytes::from(body.borrow().to_string());
    catalog.put(Put { path: path.to_owned(), if_match, body }, TURN).await
}

/// ETag and rows of an answer.
pub(crate) fn rows(reply: Result<Reply, Trouble>) -> (Option<String>, Vec<Value>) {
    match reply {
        Ok(Reply::Rows { etag, body }) => (etag, serde_json::from_slice(&body).unwrap()),
        other => panic!("no rows: {other:?}"),
    }
}

/// The child's place in the tree. Whatever happened to its server, it has never ended.
pub(crate) fn node(tree: &Tree) -> NodeSnapshot {
    let node = tree.node("http").unwrap();
    assert_eq!(node.incarnation, 1, "a server that is away, or strange, is no crash");
    node
}

pub(crate) fn link(tree: &Tree) -> LinkSnapshot {
    node(tree).link.unwrap()
}

pub(crate) fn is_up(tree: &Tree) -> bool {
    link(tree).state == "up"
}

/// The metric `name`, with the value of its label if it has one.
pub(crate) fn metric(tree: &Tree, name: &str, label: Option<&str>) -> i64 {
    let node = node(tree);
    let of = |metric: &&MetricSnapshot| {
        metric.name == name && metric.label.as_ref().map(|label| &*label.value) == label
    };
    node.metrics.iter().find(of).map_or(0, |metric| metric.value)
}

/// Established connections of this machine to `port` of the loopback address, as the kernel counts them.
pub(crate) fn open_connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let to_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|address| address.ends_with(&remote)) && fields.next() == Some("01")
    };
    table.lines().filter(to_it).count()
}
