//! HTTP connections to the catalog's server.
//!
//! Requests are sent byte for byte as given. All rules of a catalog share the server's limits: at most four
//! reads and one write at a time, and `Retry-After`. They also share the retries of aborted transactions and
//! one reload of refused credentials. [`RequestError`] says what is known about a failed write.

mod child;
mod classify;
mod client;
mod endpoint;
mod identity;
mod metrics;
mod request;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use orchestrator_observe::LinkFailure;
use orchestrator_supervise::{ChildSpec, Shutdown};
use tokio::sync::watch;

pub(crate) use self::endpoint::{CatalogEndpoint, Timeouts};
use self::{
    child::Write,
    client::{CatalogClient, READS, WRITES},
    request::describe,
};
use crate::{
    edge::credentials::Source,
    priority_semaphore::{PrioritySemaphore, Purpose, WritePriority},
    service::{CatalogResponse, Get, Put, RequestError, Service},
};

/// Shutdown time-out: time for the answers to requests whose callers have gone.
const STOP_TIMEOUT: Shutdown = Shutdown::After(Duration::from_secs(1));

/// Handle of a catalog's connections. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct HttpCatalog {
    running: watch::Receiver<Option<Arc<CatalogClient>>>,
    reads: PrioritySemaphore,
    writes: PrioritySemaphore,
}

/// Specification of the child `http` that talks to the catalog at `endpoint`, and its handle. List
/// it before its users, so that it stops after them, when nobody waits for the requests in flight any more.
pub(crate) fn child_spec(endpoint: CatalogEndpoint, source: Source) -> (HttpCatalog, ChildSpec) {
    let (started, running) = watch::channel(None);
    let (reads, writes) = (PrioritySemaphore::new(READS), PrioritySemaphore::new(WRITES));
    let child = ChildSpec::worker("http", child::factory(endpoint, source, started)).shutdown(STOP_TIMEOUT);
    (HttpCatalog { running, reads, writes }, child)
}

impl Service for HttpCatalog {
    /// Dropped, it closes its connection.
    async fn get(&self, get: Get) -> Result<CatalogResponse, RequestError> {
        // Reads have no priorities: they go in the order of their arrival.
        let priority = WritePriority { purpose: Purpose::Claim, priority: 0 };
        let _permit = self.reads.acquire(priority).await;
        let what = describe("GET", &get.path);
        let client = self.client(&what).await?;
        let answer = client.carry_out(client.get(&get, &what)).await;
        answer.unwrap_or_else(|| {
            Err(RequestError::Unavailable(format!("{what}: the connection's child ended")))
        })
    }

    /// Dropped before it has a permit, nothing is sent; later, the write is carried out all the same.
    async fn put(&self, put: Put, priority: WritePriority) -> Result<Bytes, RequestError> {
        let permit = self.writes.acquire(priority).await;
        let what = describe("PUT", &put.path);
        let client = self.client(&what).await?;
        let unknown = format!(
            "whether {what} was carried out is not known: the connection's child ended before the answer"
        );
        let abandoned_writes = client.abandoned_writes.clone();
        let write = async move {
            let _permit = permit;
            client.carry_out(client.put(&put, &what, priority.purpose == Purpose::Claim)).await
        };
        let answer = Write::new(write.boxed(), abandoned_writes).await;
        answer.unwrap_or(Err(RequestError::OutcomeUnknown(unknown)))
    }

    fn show_outage(&self, rule: &str, outage: Option<(LinkFailure, Duration)>) {
        if let Some(client) = &*self.running.borrow() {
            client.show_outage(rule, outage);
        }
    }
}

impl HttpCatalog {
    /// Waits for an incarnation that takes requests.
    async fn client(&self, what: &str) -> Result<Arc<CatalogClient>, RequestError> {
        let mut running = self.running.clone();
        let client = running.wait_for(|client| client.as_ref().is_some_and(|client| client.is_open())).await;
        let client = client.ok().and_then(|client| client.clone());
        client.ok_or_else(|| RequestError::Unavailable(format!("{what} was not sent: the process ends")))
    }
}
