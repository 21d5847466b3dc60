//! Interface to a catalog's server. A trait, so that tests can return responses that a real server
//! gives rarely.

use std::time::Duration;

use bytes::Bytes;
use orchestrator_edge::RetryPolicy;

use orchestrator_observe::LinkFailure;

use crate::priority_semaphore::WritePriority;

/// Delays after an aborted transaction (CONTRACT CE02): random, so that competitors do not collide again, and
/// short, since the server works.
pub(crate) const AFTER_ABORT: RetryPolicy =
    RetryPolicy::exception(Duration::from_millis(20), Duration::from_millis(200));

/// Maximum length of a response's body, in bytes (CONTRACT CE11): far more than any server sends within its
/// 15 s limit.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 20;

/// A read (CONTRACT CP01, CP05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Get {
    /// Path behind the catalog's base, e.g. `/entity/Foo/state=actionable?limit=5`; sent byte for
    /// byte.
    pub path: String,
    /// ETag of the cached response; the server answers 304 if it is still current.
    pub if_none_match: Option<String>,
}

/// A write (CONTRACT CP04).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Put {
    /// Path behind the catalog's base.
    pub path: String,
    /// ETag of the response that this write depends on. The server writes nothing if the catalog
    /// has changed since.
    pub if_match: Option<String>,
    /// JSON array of rows.
    pub body: Bytes,
}

/// Successful response to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CatalogResponse {
    /// 304: the cached response is current.
    NotModified {
        /// ETag as the server wrote it, quotes included.
        etag: Option<String>,
    },
    /// Any 2xx status.
    Rows {
        /// ETag as the server wrote it, quotes included.
        etag: Option<String>,
        body: Bytes,
    },
}

/// Failure of a request, by what is known about its effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// 412: the catalog has changed since the read. Nothing was written.
    #[error("the catalog has changed since it was read")]
    PreconditionFailed,
    /// 503 `Transaction aborted.` of a claim: another write came first. Nothing was written.
    #[error("the server aborted the claim because of another write")]
    Aborted,
    /// No connection, 429 or 503: the request was not carried out and may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// Lost answer, time-out or other 5xx: the request may have been carried out, or may still be.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// 400, 405, 409, 415 and the like: the same request fails again. Nothing was written.
    #[error("{0}")]
    Rejected(String),
    /// 404: the catalog, table or row does not exist. Nothing was written.
    #[error("{0}")]
    NotFound(String),
    /// 401 or 403, also after the credentials were read again. Nothing was written.
    #[error("{0}")]
    Unauthorized(LinkFailure),
    /// 413: too many rows in one write. Nothing was written.
    #[error("the server rejects the write as too large")]
    PayloadTooLarge,
}

/// Access to one catalog. Before a call returns an error, aborted transactions (503 `Transaction aborted.`)
/// are retried, but those of claims, and credentials are read again once. At most one write runs at a time.
pub(crate) trait Service {
    fn get(&self, get: Get) -> impl Future<Output = Result<CatalogResponse, RequestError>>;

    /// Waiting writes go in the order of `priority`. Returns the body of the response.
    fn put(&self, put: Put, priority: WritePriority) -> impl Future<Output = Result<Bytes, RequestError>>;

    /// Shows in the server's link that `rule` gets errors instead of rows, and the time until its next
    /// request. None: it gets rows again.
    fn show_outage(&self, _rule: &str, _outage: Option<(LinkFailure, Duration)>) {}
}
