//! HTTP/1.1 client of all edges. It sends requests unchanged, and limits head, body, chunks and time of a response.

mod connection;
mod endpoint;
mod head_limit;
mod headers;
mod pool;
#[cfg(feature = "tls")]
mod target;
#[cfg(feature = "tls")]
mod webhook;

use std::{io, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, StatusCode};

pub use self::{
    connection::{Connection, Incoming},
    endpoint::Endpoint,
    headers::{IDEMPOTENCY_KEY, file_headers, plain_headers},
    pool::Pool,
};
#[cfg(feature = "tls")]
pub use self::{
    target::Target,
    webhook::{Answer, PostError, Webhook},
};

/// Body of a request.
pub type Body = Full<Bytes>;

/// HTTP request.
pub type Request = hyper::Request<Body>;

/// Complete HTTP response.
#[derive(Debug)]
pub struct Response {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Limits of one response.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest body, in bytes.
    pub body: usize,
    /// Time from sending the request to the end of the response.
    pub time: Duration,
}

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Connecting failed. Nothing was sent.
    #[error("{0}")]
    Connect(io::Error),
    /// The TLS handshake failed. Nothing was sent.
    #[error(
        "TLS: {0}: check that the server speaks TLS, and that ca_file has the authority of its certificate"
    )]
    Tls(io::Error),
    /// Connecting took too long. Nothing was sent.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// The connection ended before anything of the request was sent.
    #[error("{0}")]
    Unsent(String),
    /// The request was sent, at least in part, and no response came.
    #[error("{0}")]
    Unanswered(String),
    /// The connection ended before the whole response came.
    #[error("{0}")]
    Incomplete(String),
    /// The response is not HTTP/1.1, or has too many small chunks.
    #[error("{0}")]
    Malformed(String),
    /// The body is longer than the limit, in bytes.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The response did not come in time.
    #[error("no response within {0:?}")]
    ResponseTimeout(Duration),
}

impl HttpError {
    /// Returns true if nothing of the request was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Tls(_) | Self::ConnectTimeout(_) | Self::Unsent(_))
    }
}
