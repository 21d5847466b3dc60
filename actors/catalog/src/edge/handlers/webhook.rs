//! `http`: a webhook. Each row is posted to an address, on a connection of its own: one that was kept could be closed by the
//! receiver at the moment of the request, and whether the work was begun would not be known.

use std::{path::PathBuf, time::Duration};

use hyper::{
    Method, StatusCode,
    header::{self, HeaderMap, HeaderValue},
};
use orchestrator_edge::http::{Body, Connection, HttpError, Incoming, Request};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::{
    capture::Head,
    headers::{IDEMPOTENCY_KEY, of_file},
    target::Target,
};
use crate::{
    answer::{fields, quoted},
    handling::{Handler, Row, Task, Verdict},
    verdict_kind::{VerdictKind, of_status},
};

/// A receiver that takes longer to let us in counts as away.
const CONNECT: Duration = Duration::from_secs(10);

/// Of what a receiver says when it has not done the work, this is shown, bytes.
const REASON_KEPT: usize = 200;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("orchestrator/", env!("CARGO_PKG_VERSION")));

/// Posts each row.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Where to.
    pub target: Target,
    /// Headers beside ours.
    pub headers: HeaderMap,
    /// A file with more of them; it is read for each request, so that a secret can be changed.
    pub headers_file: Option<PathBuf>,
    /// How long it may take in all.
    pub timeout: Duration,
    /// Longest answer, bytes.
    pub answer_bytes: usize,
}

/// The body of a request.
#[derive(Serialize)]
struct Order<'a> {
    rule: &'a str,
    token: Option<&'a str>,
    attempt: Option<u32>,
    row: &'a Row,
}

/// An answer, as far as it is kept.
struct Answer {
    status: StatusCode,
    body: Head,
}

impl Handler for Webhook {
    async fn handle(&self, task: Task) -> Verdict {
        let deadline = Instant::now() + self.timeout;
        let target = &self.target;
        let request = match self.request(&task) {
            Ok(request) => request,
            Err(reason) => return Verdict::Later(reason),
        };
        let connection = match Connection::open(target.receiver(), self.timeout.min(CONNECT)).await {
            Ok(connection) => connection,
            Err(error) => {
                let reason = match error {
                    HttpError::ConnectTimeout(_) => "no answer in time".to_owned(),
                    HttpError::Connect(error) | HttpError::Tls(error) => error.to_string(),
                    error => error.to_string(),
                };
                return Verdict::Later(format!("cannot connect to {target}: {reason}"));
            }
        };
        // From here on the work may have been done: whatever goes wrong counts as an attempt.
        match timeout_at(deadline, self.exchange(connection, request)).await {
            Ok(Ok(answer)) => self.verdict(&answer),
            Ok(Err(error)) => {
                Verdict::Failed(format!("no answer from {target}, which may have done it: {error}"))
            }
            Err(_) => Verdict::Failed(format!(
                "no answer from {target} within {:?}, which may have done it",
                self.timeout
            )),
        }
    }
}

impl Webhook {
    fn request(&self, task: &Task) -> Result<Request, String> {
        let Task { rule, row, token, attempt } = task;
        let order = Order { rule, token: token.as_deref(), attempt: *attempt, row };
        let odd = |error: &dyn std::error::Error| format!("the request cannot be made: {error}");
        let body = serde_json::to_vec(&order).map_err(|error| odd(&error))?;
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(self.target.path().as_str())
            .body(Body::from(body))
            .map_err(|error| odd(&error))?;
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        if let Some(file) = &self.headers_file {
            headers.extend(of_file(file)?);
        }
        headers.insert(header::HOST, self.target.authority());
        headers.entry(header::USER_AGENT).or_insert(AGENT);
        headers.insert(header::ACCEPT, JSON);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Some(key) = repetition_key(task) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        Ok(request)
    }

    async fn exchange(&self, mut connection: Connection, request: Request) -> Result<Answer, HttpError> {
        let response = connection.send(request).await?;
        let status = response.status();
        let mut body = Head::new(if status.is_success() { self.answer_bytes } else { REASON_KEPT });
        match keep(&mut connection, response.into_body(), &mut body).await {
            // A refusal is one, whether its reason arrives or not.
            Err(error) if status.is_success() => Err(error),
            _ => Ok(Answer { status, body }),
        }
    }

    fn verdict(&self, answer: &Answer) -> Verdict {
        let (target, status) = (&self.target, answer.status.as_u16());
        let said = quoted(answer.body.bytes());
        let mut text = format!("{target} answered with status {status}");
        if answer.status.is_redirection() {
            text.push_str(": no redirection is followed: write the new address into handler.url");
        } else if !said.is_empty() {
            text = format!("{text}: {said}");
        }
        match of_status(status) {
            VerdictKind::Done => self.done(answer),
            VerdictKind::Failed => Verdict::Failed(text),
            VerdictKind::Later => Verdict::Later(text),
            VerdictKind::Dead => Verdict::Dead(text),
        }
    }

    fn done(&self, answer: &Answer) -> Verdict {
        let target = &self.target;
        let Some(body) = answer.body.whole() else {
            let limit = self.answer_bytes;
            return Verdict::Failed(format!(
                "{target} answered with more than {limit} bytes: raise answer_bytes"
            ));
        };
        match fields(body) {
            Ok(fields) => Verdict::Done(fields),
            Err(reason) => Verdict::Failed(format!("{target} answered {reason}")),
        }
    }
}

/// Reads as much of an answer as is kept. What is more is not read: the connection ends with this request.
async fn keep(connection: &mut Connection, mut body: Incoming, head: &mut Head) -> Result<(), HttpError> {
    while head.whole().is_some()
        && let Some(piece) = connection.next_chunk(&mut body).await?
    {
        head.take(&piece);
    }
    Ok(())
}

/// Which work it is that is asked for: it is the same if a row is handed over again under the same claim. A table without tokens
/// has the row's time of modification instead.
fn repetition_key(task: &Task) -> Option<HeaderValue> {
    let column = |name| task.row.get(name).and_then(serde_json::Value::as_str);
    let claim = task.token.as_deref().or_else(|| column("RMT"))?;
    HeaderValue::from_str(&format!("{claim}/{}", column("RID")?)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repetition_is_told_by_claim_and_row() {
        let task = |token: Option<&str>, row: serde_json::Value| Task {
            rule: "r".to_owned(),
            row: row.as_object().cloned().unwrap_or_default(),
            token: token.map(str::to_owned),
            attempt: None,
        };
        let row = json!({"RID": "1-A", "RMT": "2026-11-20 12:42:13+00"});
        let key = |task| repetition_key(&task).map(|key| key.to_str().expect("ASCII").to_owned());
        assert_eq!(key(task(Some("me/7"), row.clone())).as_deref(), Some("me/7/1-A"));
        assert_eq!(key(task(None, row)).as_deref(), Some("2026-11-20 12:42:13+00/1-A"));
        assert_eq!(key(task(None, json!({"RID": "1-A"}))), None);
        assert_eq!(key(task(Some("t"), json!({"id": 1}))), None);
        assert_eq!(key(task(Some("two\nlines"), json!({"RID": "1-A"}))), None);
    }
}
