//! The HTTP/1.1 client of all edges: requests go out byte for byte as they are given, and head, body, pieces and time of an answer are
//! limited.

mod connection;
mod endpoint;
mod head_limit;
mod pool;

use std::{io, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, StatusCode};

pub use self::{
    connection::{Connection, Incoming},
    endpoint::Endpoint,
    pool::Pool,
};

/// Body of a request.
pub type Body = Full<Bytes>;

/// A request.
pub type Request = hyper::Request<Body>;

/// A whole answer.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Limits of one answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest body, bytes.
    pub body: usize,
    /// For the request to be sent and answered whole.
    pub time: Duration,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// There is no connection. Nothing was sent.
    #[error("{0}")]
    Connect(io::Error),
    /// The connection cannot be secured. Nothing was sent.
    #[error(
        "TLS: {0}: see that the server speaks TLS, and that ca_file has the authority of its certificate"
    )]
    Tls(io::Error),
    /// There was no connection in time. Nothing was sent.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// The connection ended before anything of the request was sent.
    #[error("{0}")]
    Unsent(String),
    /// The request was sent, at least in part, and nothing came back.
    #[error("{0}")]
    Unanswered(String),
    /// The answer broke off.
    #[error("{0}")]
    Incomplete(String),
    /// The answer is longer than the limit, in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer did not come in time.
    #[error("none within {0:?}")]
    ResponseTimeout(Duration),
}

impl HttpError {
    /// Tells whether nothing of the request was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Tls(_) | Self::ConnectTimeout(_) | Self::Unsent(_))
    }
}
