//! HTTP connections to the catalog's server.
//!
//! Requests are sent byte for byte as given. All rules of a catalog share the server's limits: at
//! most four reads and one write at a time, retries of aborted transactions, one reload of refused
//! credentials, and `Retry-After`. [`RequestError`] says what is known about a failed write.

mod child;
mod classify;
mod client;
mod endpoint;
mod identity;
mod metrics;
mod request;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Acquire},
    },
    time::Duration,
};

use orchestrator_supervise::{ChildSpec, Outbox, Shutdown, inbox, reply};

pub(crate) use self::endpoint::{CatalogEndpoint, Timeouts};
use self::{child::Call, request::CatalogRequest};
use crate::{
    edge::credentials::Source,
    priority_semaphore::{PrioritySemaphore, Purpose, WritePriority},
    service::{CatalogResponse, Get, Put, RequestError, Service},
};

/// Maximum number of concurrent reads.
const READS: usize = 4;
/// Maximum number of concurrent writes: concurrent writes abort each other's transactions.
const WRITES: usize = 1;

/// Shutdown time-out: time for the answers to requests whose callers have gone.
const STOP_TIMEOUT: Shutdown = Shutdown::After(Duration::from_secs(1));

/// Handle of a catalog's connections. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct HttpCatalog {
    calls: Outbox<Call>,
    reads: PrioritySemaphore,
    writes: PrioritySemaphore,
}

/// Specification of the child `http` that talks to the catalog at `endpoint`, and its handle. List
/// it before its users, so that it stops after them, when nobody waits for the requests in flight any more.
pub(crate) fn child_spec(endpoint: CatalogEndpoint, source: Source) -> (HttpCatalog, ChildSpec) {
    let (calls, slot) = inbox(READS + WRITES);
    let factory = child::factory(endpoint, source, &slot);
    let catalog =
        HttpCatalog { calls, reads: PrioritySemaphore::new(READS), writes: PrioritySemaphore::new(WRITES) };
    (catalog, ChildSpec::worker("http", factory).shutdown(STOP_TIMEOUT))
}

impl Service for HttpCatalog {
    async fn get(&self, get: Get) -> Result<CatalogResponse, RequestError> {
        // Reads have no priorities: they go in the order of their arrival.
        self.call(
            CatalogRequest::Get(get),
            &self.reads,
            WritePriority { purpose: Purpose::Claim, priority: 0 },
        )
        .await
    }

    async fn put(&self, put: Put, priority: WritePriority) -> Result<CatalogResponse, RequestError> {
        let request = match priority.purpose {
            Purpose::Claim => CatalogRequest::Claim(put),
            Purpose::Renewal | Purpose::Settlement => CatalogRequest::Put(put),
        };
        self.call(request, &self.writes, priority).await
    }
}

impl HttpCatalog {
    /// Waits for a permit, sends `request` to the child and waits for the result. Dropped before it
    /// has a permit, nothing is sent; later, the request is carried out all the same.
    async fn call(
        &self,
        request: CatalogRequest,
        semaphore: &PrioritySemaphore,
        priority: WritePriority,
    ) -> Result<CatalogResponse, RequestError> {
        let permit = semaphore.acquire(priority).await;
        let (reply, response) = reply();
        let may_be_sent = Arc::new(AtomicBool::new(false));
        let (what, is_get) = (request.describe(), request.is_get());
        let call = Call { request, reply, may_be_sent: may_be_sent.clone(), _permit: permit };
        if self.calls.send(call).await.is_err() {
            return Err(RequestError::Unavailable(format!("{what} was not sent: the process ends")));
        }
        // The child ended, and with it the knowledge of the request.
        response.await.unwrap_or_else(|_lost| {
            if may_be_sent.load(Acquire) && !is_get {
                let reason = "the connection's child ended before the answer";
                return Err(RequestError::OutcomeUnknown(format!(
                    "whether {what} was carried out is not known: {reason}"
                )));
            }
            Err(RequestError::Unavailable(format!("{what}: the connection's child ended")))
        })
    }
}
