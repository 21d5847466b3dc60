//! A supervision tree with the child `http` alone, and requests for it.

use std::{borrow::Borrow, time::Duration};

use bytes::Bytes;
use orchestrator_observe::{LinkSnapshot, LinkStatus, MetricSnapshot, NodeSnapshot};
pub(crate) use orchestrator_supervise::testing::{TestTree, eventually};
use orchestrator_supervise::{Shutdown, Strategy, SupervisorSpec, Tree};
use serde_json::Value;

use crate::{
    edge::{
        credentials::Source,
        http::{CatalogEndpoint, HttpCatalog, Timeouts, child_spec},
    },
    priority_semaphore::{Purpose, WritePriority},
    service::{CatalogResponse, Get, Put, RequestError, Service},
};

/// Time-outs for servers that do not answer. Connecting may take long on a busy machine.
pub(crate) const SHORT_TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(6),
    read: Duration::from_secs(2),
    idle: Duration::from_secs(30),
    aborted: Duration::from_secs(60),
    too_many_requests_max: Duration::from_secs(60),
    unavailable_max: Duration::from_secs(60),
};

/// Priority of all writes.
pub(crate) const WRITE_PRIORITY: WritePriority = WritePriority { purpose: Purpose::Settlement, priority: 0 };

pub(crate) fn endpoint(base: &str) -> CatalogEndpoint {
    CatalogEndpoint::new(base, None, &[]).unwrap()
}

/// The catalog at `base`, with anonymous requests.
pub(crate) fn to(base: &str) -> (HttpCatalog, SupervisorSpec) {
    with(endpoint(base), Source::Anonymous)
}

pub(crate) fn with(endpoint: CatalogEndpoint, source: Source) -> (HttpCatalog, SupervisorSpec) {
    let (catalog, child) = child_spec(endpoint, source);
    (catalog, SupervisorSpec::new(Strategy::OneForOne).child(child))
}

/// As [`to`], but a restart does not wait for requests in flight.
pub(crate) fn without_drain(base: &str) -> (HttpCatalog, SupervisorSpec) {
    let (catalog, child) = child_spec(endpoint(base), Source::Anonymous);
    (catalog, SupervisorSpec::new(Strategy::OneForOne).child(child.shutdown(Shutdown::After(Duration::ZERO))))
}

pub(crate) async fn get(catalog: &HttpCatalog, path: &str) -> Result<CatalogResponse, RequestError> {
    catalog.get(Get { path: path.to_owned(), if_none_match: None }).await
}

pub(crate) async fn put(
    catalog: &HttpCatalog,
    path: &str,
    body: impl Borrow<Value>,
) -> Result<Bytes, RequestError> {
    put_if(catalog, path, body, None).await
}

pub(crate) async fn put_if(
    catalog: &HttpCatalog,
    path: &str,
    body: impl Borrow<Value>,
    if_match: Option<String>,
) -> Result<Bytes, RequestError> {
    let body = Bytes::from(body.borrow().to_string());
    catalog.put(Put { path: path.to_owned(), if_match, body }, WRITE_PRIORITY).await
}

pub(crate) fn rows(reply: Result<CatalogResponse, RequestError>) -> (Option<String>, Vec<Value>) {
    match reply {
        Ok(CatalogResponse::Rows { etag, body }) => (etag, serde_json::from_slice(&body).unwrap()),
        other => panic!("no rows: {other:?}"),
    }
}

pub(crate) fn written(reply: Result<Bytes, RequestError>) -> Vec<Value> {
    serde_json::from_slice(&reply.unwrap()).unwrap()
}

/// Checks that the child was never restarted.
pub(crate) fn node(tree: &Tree) -> NodeSnapshot {
    let node = tree.node("http").unwrap();
    assert_eq!(node.incarnation, 1, "a server that is away, or strange, is no crash");
    node
}

pub(crate) fn link(tree: &Tree) -> LinkSnapshot {
    node(tree).link.unwrap()
}

pub(crate) fn is_up(tree: &Tree) -> bool {
    link(tree).state == LinkStatus::Up
}

/// `label` is the value of the metric's label, if it has one.
pub(crate) fn metric(tree: &Tree, name: &str, label: Option<&str>) -> i64 {
    let node = node(tree);
    let of = |metric: &&MetricSnapshot| {
        metric.name == name && metric.label.as_ref().map(|label| &*label.value) == label
    };
    node.metrics.iter().find(of).map_or(0, |metric| metric.value)
}

/// Established connections to the loopback address, from /proc/net/tcp.
pub(crate) fn open_connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let to_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|address| address.ends_with(&remote)) && fields.next() == Some("01")
    };
    table.lines().filter(to_it).count()
}
