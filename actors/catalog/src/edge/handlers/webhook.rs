//! `http`: posts each row to an address.

use hyper::header::{self, HeaderMap, HeaderValue};
use orchestrator_catalog_rules::{
    answer::{fields, quoted},
    outcome_kind::{OutcomeKind, of_status},
    rows::Row,
};
use orchestrator_edge::{
    Sent,
    http::{HttpReply, IDEMPOTENCY_KEY, Webhook},
};
use serde::Serialize;

use crate::handler::{Handler, Outcome, Task};

/// Quoted part of an error response, in bytes.
pub(crate) const REASON_KEPT: usize = 200;

/// Body of a request.
#[derive(Serialize)]
struct RequestBody<'a> {
    rule: &'a str,
    token: Option<&'a str>,
    attempt: Option<u32>,
    row: &'a Row,
}

impl Handler for Webhook {
    async fn handle(&self, task: Task) -> Outcome {
        let mut headers =
            HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
        headers.extend(idempotency_key(&task).map(|key| (IDEMPOTENCY_KEY, key)));
        let Task { rule, row, token, attempt, .. } = &task;
        let body = RequestBody { rule, token: token.as_deref(), attempt: *attempt, row };
        // Rows come from JSON, so they can be serialized.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        match self.post(body, headers).await {
            Ok(answer) => outcome(self, &answer),
            Err(error) if error.sent == Sent::No => Outcome::Later(error.text),
            // Every such error counts as an attempt.
            Err(error) => Outcome::failed(error.text),
        }
    }
}

fn outcome(webhook: &Webhook, answer: &HttpReply) -> Outcome {
    let status = answer.status.as_u16();
    let quoted_body = quoted(answer.body.bytes());
    let mut text = format!("{} answered with status {status}", webhook.target);
    if answer.status.is_redirection() {
        text.push_str(": no redirection is followed: write the new address into handler.url");
    } else if !quoted_body.is_empty() {
        text = format!("{text}: {quoted_body}");
    }
    match of_status(status) {
        OutcomeKind::Done => done(webhook, answer),
        OutcomeKind::Failed => Outcome::failed(text),
        OutcomeKind::Later => Outcome::Later(text),
        OutcomeKind::Dead => Outcome::dead(text),
    }
}

fn done(webhook: &Webhook, answer: &HttpReply) -> Outcome {
    let target = &webhook.target;
    let Some(body) = answer.body.whole() else {
        let limit = webhook.answer_max.unwrap_or_default();
        return Outcome::failed(format!(
            "{target} answered with more than {limit} bytes: raise answer_bytes"
        ));
    };
    match fields(body) {
        Ok(fields) => Outcome::Done(fields),
        Err(reason) => Outcome::failed(format!("{target} answered {reason}")),
    }
}

/// The same if a row is posted again under the same claim (CONTRACT CP16).
fn idempotency_key(task: &Task) -> Option<HeaderValue> {
    let column = |name| task.row.get(name).and_then(|value| value.as_str());
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
            row: serde_json::from_value(row).expect("an object"),
            token: token.map(str::to_owned),
            former_token: None,
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
