//! HTTP/1.1. The client of all edges sends requests unchanged, and limits head, body, chunks and time of a
//! response. The server limits the head, and answers one request on each connection.

mod connection;
mod endpoint;
mod head_limit;
mod headers;
mod pool;
mod proxy;
mod server;
#[cfg(feature = "tls")]
mod target;
#[cfg(feature = "tls")]
mod webhook;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, StatusCode};

pub use self::{
    connection::{Connection, Incoming},
    endpoint::Endpoint,
    headers::{IDEMPOTENCY_KEY, file_headers, plain_headers},
    pool::Pool,
    proxy::Proxy,
    server::{response, serve, serve_one},
};
#[cfg(feature = "tls")]
pub use self::{
    target::Target,
    webhook::{HttpReply, Webhook},
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
