//! `http`: posts each row to an address, on a new connection each time. A kept connection could be
//! closed by the receiver during the request, and the outcome would be unknown.

use std::{path::PathBuf, time::Duration};

use hyper::{
    Method, StatusCode,
    header::{self, HeaderMap, HeaderValue},
};
use orchestrator_edge::{
    capture::Head,
    http::{Body, Connection, HttpError, IDEMPOTENCY_KEY, Incoming, Request, Target, file_headers},
};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    answer::{fields, quoted},
    handler::{Handler, Outcome, Row, Task},
    outcome_kind::{OutcomeKind, of_status},
};

/// Maximum time to connect; then the receiver counts as unavailable.
const CONNECT: Duration = Duration::from_secs(10);

/// Quoted part of an error response, in bytes.
const REASON_KEPT: usize = 200;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));

/// Posts each row to `target`.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Address of the receiver.
    pub target: Target,
    /// Additional headers.
    pub headers: HeaderMap,
    /// File with additional secret headers, read for each request.
    pub headers_file: Option<PathBuf>,
    /// Maximum time for one row.
    pub timeout: Duration,
    /// Maximum size of the answer, in bytes.
    pub answer_bytes: usize,
}

/// Body of a request.
#[derive(Serialize)]
struct RequestBody<'a> {
    rule: &'a str,
    token: Option<&'a str>,
    attempt: Option<u32>,
    row: &'a Row,
}

/// A response, as far as it is captured.
struct HandlerResponse {
    status: StatusCode,
    body: Head,
}

impl Handler for Webhook {
    async fn handle(&self, task: Task) -> Outcome {
        let deadline = Instant::now() + self.timeout;
        let target = &self.target;
        let request = match self.request(&task) {
            Ok(request) => request,
            Err(reason) => return Outcome::Later(reason),
        };
        let connection = match Connection::open(target.receiver(), self.timeout.min(CONNECT)).await {
            Ok(connection) => connection,
            Err(error) => {
                let reason = match error {
                    HttpError::ConnectTimeout(_) => "no answer in time".to_owned(),
                    HttpError::Connect(error) | HttpError::Tls(error) => error.to_string(),
                    error => error.to_string(),
                };
                return Outcome::Later(format!("cannot connect to {target}: {reason}"));
            }
        };
        // The receiver may have done the work from here on, so every error counts as an attempt.
        match timeout_at(deadline, self.exchange(connection, request)).await {
            Ok(Ok(answer)) => self.outcome(&answer),
            Ok(Err(error)) => {
                Outcome::Failed(format!("no answer from {target}, which may have done it: {error}"))
            }
            Err(_) => Outcome::Failed(format!(
                "no answer from {target} within {:?}, which may have done it",
                self.timeout
            )),
        }
    }
}

impl Webhook {
    fn request(&self, task: &Task) -> Result<Request, String> {
        let Task { rule, row, token, attempt } = task;
        let body_fields = RequestBody { rule, token: token.as_deref(), attempt: *attempt, row };
        let invalid = |error: &dyn std::error::Error| format!("the request cannot be made: {error}");
        let body = serde_json::to_vec(&body_fields).map_err(|error| invalid(&error))?;
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(self.target.path().as_str())
            .body(Body::from(body))
            .map_err(|error| invalid(&error))?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        if let Some(file) = &self.headers_file {
            headers.extend(file_headers(file)?);
        }
        headers.insert(header::HOST, self.target.authority());
        headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
        headers.insert(header::ACCEPT, JSON);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(key) = idempotency_key(task) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        Ok(request)
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: Request,
    ) -> Result<HandlerResponse, HttpError> {
        let response = connection.send(request).await?;
        let status = response.status();
        let mut body = Head::new(if status.is_success() { self.answer_bytes } else { REASON_KEPT });
        match read_limited(&mut connection, response.into_body(), &mut body).await {
            // An error status counts even if its body is incomplete.
            Err(error) if status.is_success() => Err(error),
            _ => Ok(HandlerResponse { status, body }),
        }
    }

    fn outcome(&self, answer: &HandlerResponse) -> Outcome {
        let (target, status) = (&self.target, answer.status.as_u16());
        let quoted_body = quoted(answer.body.bytes());
        let mut text = format!("{target} answered with status {status}");
        if answer.status.is_redirection() {
            text.push_str(": no redirection is followed: write the new address into handler.url");
        } else if !quoted_body.is_empty() {
            text = format!("{text}: {quoted_body}");
        }
        match of_status(status) {
            OutcomeKind::Done => self.done(answer),
            OutcomeKind::Failed => Outcome::Failed(text),
            OutcomeKind::Later => Outcome::Later(text),
            OutcomeKind::Dead => Outcome::Dead(text),
        }
    }

    fn done(&self, answer: &HandlerResponse) -> Outcome {
        let target = &self.target;
        let Some(body) = answer.body.whole() else {
            let limit = self.answer_bytes;
            return Outcome::Failed(format!(
                "{target} answered with more than {limit} bytes: raise answer_bytes"
            ));
        };
        match fields(body) {
            Ok(fields) => Outcome::Done(fields),
            Err(reason) => Outcome::Failed(format!("{target} answered {reason}")),
        }
    }
}

/// Reads the body up to the limit of `head`; the connection ends with this request.
async fn read_limited(
    connection: &mut Connection,
    mut body: Incoming,
    head: &mut Head,
) -> Result<(), HttpError> {
    while head.whole().is_some()
        && let Some(piece) = connection.next_chunk(&mut body).await?
    {
        head.take(&piece);
    }
    Ok(())
}

/// Returns the `Idempotency-Key`: the same if a row is posted again under the same claim
/// (CONTRACT CP16).
fn idempotency_key(task: &Task) -> Option<HeaderValue> {
    let column = |name| task.row.get(name).and_then(serde_json::Value::as_str);
    let claim = task.token.as_deref().or_else(|| column("RMT"))?;
    HeaderValue::from_str(&format!("{claim}/{}", column("RID")?)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_idempotency_key_names_claim_and_row() {
        let task = |token: Option<&str>, row: serde_json::Value| Task {
            rule: "r".to_owned(),
            row: row.as_object().cloned().unwrap_or_default(),
            token: token.map(str::to_owned),
            attempt: None,
        };
        let row = json!({"RID": "1-A", "RMT": "2026-11-20 12:42:13+00"});
        let key = |task| idempotency_key(&task).map(|key| key.to_str().expect("ASCII").to_owned());
        assert_eq!(key(task(Some("me/7"), row.clone())).as_deref(), Some("me/7/1-A"));
        assert_eq!(key(task(None, row)).as_deref(), Some("2026-11-20 12:42:13+00/1-A"));
        assert_eq!(key(task(None, json!({"RID": "1-A"}))), None);
        assert_eq!(key(task(Some("t"), json!({"id": 1}))), None);
        assert_eq!(key(task(Some("two\nlines"), json!({"RID": "1-A"}))), None);
    }
}
