//! Webhook that receives a completed TCN. A status from 200 to 299 means that it has accepted it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::{
    Method, StatusCode,
    header::{self, HeaderValue},
};
use orchestrator_edge::{
    capture::Head,
    http::{Body, Connection, HttpError, IDEMPOTENCY_KEY, Request, Target, file_headers},
};
use orchestrator_supervise::sanitize_to;
use tokio::time::{Instant, timeout_at};

use super::OUTPUT_KEPT;
use crate::completion::Completion;

/// Upper bound of the time to connect.
const CONNECT: Duration = Duration::from_secs(10);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));

/// Webhook. Each request has a new connection, since the receiver could close a kept one during the request.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    target: Target,
    headers_file: Option<PathBuf>,
    timeout: Duration,
}

impl Webhook {
    /// Returns the webhook at `url`.
    ///
    /// # Errors
    /// The address or `ca_file` cannot be used. The text begins with the key and repeats no address.
    pub(super) fn new(
        url: &str,
        ca_file: Option<&Path>,
        headers_file: Option<PathBuf>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let target = Target::new(url, ca_file).map_err(|reason| {
            if reason.starts_with("ca_file") { reason } else { format!("url = ..: {reason}") }
        })?;
        Ok(Self { target, headers_file, timeout })
    }

    /// Returns the address without its query, which may hold a secret.
    pub(super) fn name(&self) -> String {
        self.target.to_string()
    }

    /// Posts a completion once.
    ///
    /// # Errors
    /// There is no answer in time, or the answer has another status. The text quotes it.
    pub(super) async fn deliver(&self, completion: &Completion) -> Result<(), String> {
        let (target, deadline) = (&self.target, Instant::now() + self.timeout);
        let request = self.request(completion)?;
        let connection = Connection::open(target.receiver(), self.timeout.min(CONNECT)).await;
        let connection = connection.map_err(|error| format!("cannot connect to {target}: {error}"))?;
        let exchange = timeout_at(deadline, exchange(connection, request)).await;
        let answer = exchange.map_err(|_| format!("no answer from {target} within {:?}", self.timeout))?;
        let (status, body) = answer.map_err(|error| format!("no answer from {target}: {error}"))?;
        if status.is_success() {
            return Ok(());
        }
        let hint = if status.is_redirection() {
            ": no redirection is followed: write the new address into producer.on_complete.url".to_owned()
        } else {
            let body = sanitize_to(body.bytes().trim_ascii(), OUTPUT_KEPT);
            if body.is_empty() { body } else { format!(": {body}") }
        };
        Err(format!("{target} answered with status {}{hint}", status.as_u16()))
    }

    fn request(&self, completion: &Completion) -> Result<Request, String> {
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(self.target.path().as_str())
            .body(Body::from(completion.to_json().to_string()))
            .map_err(|error| format!("the request cannot be made: {error}"))?;
        let headers = request.headers_mut();
        if let Some(file) = &self.headers_file {
            headers.extend(file_headers(file)?);
        }
        headers.insert(header::HOST, self.target.authority());
        headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let id = HeaderValue::from_str(&completion.id.to_string());
        headers.insert(IDEMPOTENCY_KEY, id.map_err(|error| error.to_string())?);
        Ok(request)
    }
}

/// Sends the request and reads the beginning of an error's body.
async fn exchange(mut connection: Connection, request: Request) -> Result<(StatusCode, Head), HttpError> {
    let response = connection.send(request).await?;
    let status = response.status();
    let mut head = Head::new(OUTPUT_KEPT);
    if !status.is_success() {
        let mut body = response.into_body();
        // The status counts even if its body is incomplete.
        while head.whole().is_some()
            && let Ok(Some(piece)) = connection.next_chunk(&mut body).await
        {
            head.take(&piece);
        }
    }
    Ok((status, head))
}
