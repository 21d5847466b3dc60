//! Webhook that receives a document. A status from 200 to 299 means that it has accepted it.

use std::path::Path;

use hyper::{
    StatusCode,
    header::{HeaderMap, HeaderValue},
};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_text::sanitize_to;

use super::{Document, ReceiverSettings, not_delivered::NotDelivered};
use crate::{
    SettingError,
    http::{self, IDEMPOTENCY_KEY, Target},
};

/// Captured beginning of an error's body, in bytes.
const OUTPUT_KEPT: usize = 1_024;

/// Webhook.
#[derive(Debug, Clone)]
pub(super) struct Webhook {
    request: http::Webhook,
    /// Key of the address in the configuration.
    key: String,
}

impl Webhook {
    /// Returns the webhook at `url`.
    ///
    /// # Errors
    /// The address or `ca_file` cannot be used. The text begins with the key and repeats no address.
    pub(super) fn new(url: &str, settings: &ReceiverSettings<'_>) -> Result<Self, SettingError> {
        let section = settings.section;
        let target = Target::new(url, settings.ca_file);
        let target = target.map_err(|error| error.in_section(section, "url"))?;
        let request = http::Webhook {
            target,
            headers: HeaderMap::new(),
            headers_file: settings.headers_file.map(Path::to_owned),
            timeout: settings.timeout,
            answer_max: None,
            error_max: OUTPUT_KEPT,
        };
        Ok(Self { request, key: format!("{section}.url") })
    }

    /// Leaves out the query, which may hold a secret.
    pub(super) fn name(&self) -> String {
        self.request.target.to_string()
    }

    /// Posts a document once.
    ///
    /// # Errors
    /// There is no answer in time, or the answer has another status. The text quotes it.
    pub(super) async fn deliver(&self, document: &Document) -> Result<(), NotDelivered> {
        let id = HeaderValue::from_str(&document.id).map_err(|error| error.to_string())?;
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, id)]);
        let answer = self.request.post(document.json.clone().into_bytes(), headers).await;
        let answer = answer?;
        if answer.status.is_success() {
            return Ok(());
        }
        let hint = if answer.status.is_redirection() {
            format!(": no redirection is followed: write the new address into {}", self.key)
        } else {
            let body = sanitize_to(answer.body.bytes().trim_ascii(), OUTPUT_KEPT);
            if body.is_empty() { body } else { format!(": {body}") }
        };
        let reason = format!("{} answered with status {}{hint}", self.request.target, answer.status.as_u16());
        Err(NotDelivered {
            failure: LinkFailure::new(FailureKind::Refused, reason),
            for_content: refuses_content(answer.status),
        })
    }
}

/// True from 400 to 499, except for those about the address, the headers, which all documents share,
/// credentials, or the time.
fn refuses_content(status: StatusCode) -> bool {
    status.is_client_error()
        && !matches!(
            status.as_u16(),
            401..=408 | 410..=412 | 414 | 415 | 417 | 421 | 423..=426 | 428 | 429 | 431
        )
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
        time::Duration,
    };

    use super::*;
    use crate::delivery::document::document;

    /// Starts a server that calls `answer` for each connection, after its request.
    fn server(mut answer: impl FnMut(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tcn?token=secret", listener.local_addr().unwrap());
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                // The request is small, so one read has its beginning.
                let _ = stream.read(&mut [0; 4_096]);
                answer(stream);
            }
        });
        url
    }

    #[test]
    fn the_status_tells_whether_the_content_is_refused() {
        for (status, refuses) in [
            ([400, 409, 413, 422, 451], true),
            ([401, 403, 404, 405, 407], false),
            ([408, 429, 425, 423, 410], false),
            ([301, 500, 502, 503, 507], false),
        ] {
            for status in status {
                assert_eq!(refuses_content(StatusCode::from_u16(status).unwrap()), refuses, "{status}");
            }
        }
    }

    async fn refusal(url: &str, timeout: Duration) -> String {
        let settings = ReceiverSettings {
            section: "hook",
            argv: &[],
            url: Some(url),
            headers_file: None,
            ca_file: None,
            timeout,
        };
        let text =
            Webhook::new(url, &settings).unwrap().deliver(&document()).await.unwrap_err().failure.reason;
        assert!(text.len() < 2 * OUTPUT_KEPT && !text.contains("secret"), "{text}");
        text
    }

    #[tokio::test]
    async fn hostile_answers_are_short_refusals() {
        let (secs, endless) = (Duration::from_secs(60), |head: &'static str, part: &'static str| {
            server(move |mut stream| {
                let mut sent = stream.write_all(head.as_bytes());
                while sent.is_ok() {
                    sent = stream.write_all(part.as_bytes());
                }
            })
        });
        let head = "HTTP/1.1 500 Error\r\ntransfer-encoding: chunked\r\n\r\n";
        let text = refusal(&endless(head, "4\r\n\u{1b}[2J\r\n"), secs).await;
        assert!(text.contains("answered with status 500: ") && !text.contains('\u{1b}'), "{text}");
        let text = refusal(&endless("HTTP/1.1 200 OK\r\n", "x-more: and more\r\n"), secs).await;
        assert!(text.contains("no answer from"), "{text}");
        let text = refusal(&endless("", "HTTP/1.1 102 Processing\r\n\r\n"), secs).await;
        assert!(text.contains("no answer from"), "{text}");
        let text = refusal(&server(drop), secs).await;
        assert!(text.contains("no answer from"), "{text}");
    }

    #[tokio::test]
    async fn a_redirection_and_a_silent_server_are_refusals() {
        let moved = |mut stream: TcpStream| {
            let _ = stream
                .write_all(b"HTTP/1.1 302 Found\r\nlocation: http://secret/\r\ncontent-length: 0\r\n\r\n");
        };
        let text = refusal(&server(moved), Duration::from_secs(60)).await;
        assert!(text.contains("status 302: no redirection is followed"), "{text}");
        let mut kept = Vec::new();
        let silent = server(move |stream| kept.push(stream));
        let text = refusal(&silent, Duration::from_millis(200)).await;
        assert!(text.contains("no answer from") && text.contains("within 200ms"), "{text}");
    }
}
