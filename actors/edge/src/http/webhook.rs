//! One request of a webhook: JSON that is posted over a connection of its own.

use std::{path::PathBuf, time::Duration};

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{self, HeaderValue},
};
use tokio::time::{Instant, timeout_at};

use super::{Body, Connection, Request, Target, file_headers};
use crate::{PeerError, PeerErrorKind, Sent, capture::Head};

/// Upper bound of the time to connect.
const CONNECT: Duration = Duration::from_secs(10);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));

/// Receiver of JSON. Each request has a new connection, since the receiver could close a kept one during the
/// request, whose outcome would be unknown.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Address of the receiver.
    pub target: Target,
    /// Additional headers.
    pub headers: HeaderMap,
    /// File with additional secret headers, read for each request.
    pub headers_file: Option<PathBuf>,
    /// Maximum time from connecting to the end of the answer.
    pub timeout: Duration,
    /// Maximum size of a successful answer, in bytes; None: its status is enough.
    pub answer_max: Option<usize>,
    /// Captured beginning of any other answer, in bytes.
    pub error_max: usize,
}

/// Answer of a receiver.
#[derive(Debug)]
pub struct HttpReply {
    /// Status.
    pub status: StatusCode,
    /// Body, as far as it is captured. That of an error may be incomplete.
    pub body: Head,
}

impl Webhook {
    /// Posts `body` with the additional `headers`.
    ///
    /// # Errors
    /// [`PeerError`], whose text names the receiver. An answer of any status is no error.
    pub async fn post(&self, body: Vec<u8>, headers: HeaderMap) -> Result<HttpReply, PeerError> {
        let (target, deadline) = (&self.target, Instant::now() + self.timeout);
        let request = self.request(body, headers);
        let request = request.map_err(|text| PeerError::new(PeerErrorKind::Connect, Sent::No, text))?;
        let connection = Connection::open(target.receiver(), self.timeout.min(CONNECT)).await;
        let connection = connection
            .map_err(|error| error.map_text(|text| format!("cannot connect to {target}: {text}")))?;
        let lost = |text: String| PeerError::lost(format!("no answer from {target}{text}"));
        match timeout_at(deadline, self.exchange(connection, request)).await {
            Ok(answer) => answer.map_err(|error| lost(format!(", which may have done it: {error}"))),
            Err(_) => Err(lost(format!(" within {:?}, which may have done it", self.timeout))),
        }
    }

    fn request(&self, body: Vec<u8>, headers: HeaderMap) -> Result<Request, String> {
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(self.target.path().as_str())
            .body(Body::from(body))
            .map_err(|error| format!("the request cannot be made: {error}"))?;
        let all = request.headers_mut();
        *all = self.headers.clone();
        if let Some(file) = &self.headers_file {
            all.extend(file_headers(file)?);
        }
        all.insert(header::HOST, self.target.authority());
        all.entry(header::USER_AGENT).or_insert(USER_AGENT);
        all.insert(header::CONTENT_TYPE, JSON);
        all.insert(header::CONNECTION, HeaderValue::from_static("close"));
        all.extend(headers);
        Ok(request)
    }

    async fn exchange(&self, mut connection: Connection, request: Request) -> Result<HttpReply, PeerError> {
        let response = connection.send(request).await?;
        let status = response.status();
        let limit = if status.is_success() { self.answer_max } else { Some(self.error_max) };
        let (mut chunks, mut body) = (response.into_body(), Head::new(limit.unwrap_or_default()));
        if limit.is_none() {
            return Ok(HttpReply { status, body });
        }
        while body.whole().is_some() {
            match connection.next_chunk(&mut chunks).await {
                Ok(Some(chunk)) => body.take(&chunk),
                // The status of an error counts even if its body is incomplete.
                Err(error) if status.is_success() => return Err(error),
                Ok(None) | Err(_) => break,
            }
        }
        Ok(HttpReply { status, body })
    }
}
