//! Webhook that receives a completed TCN. A status from 200 to 299 means that it has accepted it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::header::{HeaderMap, HeaderValue};
use orchestrator_edge::http::{self, IDEMPOTENCY_KEY, Target};
use orchestrator_supervise::sanitize_to;

use crate::completion::Completion;

/// Captured beginning of an error's body, in bytes.
const OUTPUT_KEPT: usize = 1_024;

/// Webhook.
#[derive(Debug, Clone)]
pub(super) struct Webhook(http::Webhook);

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
        let (headers, error_max) = (HeaderMap::new(), OUTPUT_KEPT);
        Ok(Self(http::Webhook { target, headers, headers_file, timeout, answer_max: None, error_max }))
    }

    /// Returns the address without its query, which may hold a secret.
    pub(super) fn name(&self) -> String {
        self.0.target.to_string()
    }

    /// Posts a completion once.
    ///
    /// # Errors
    /// There is no answer in time, or the answer has another status. The text quotes it.
    pub(super) async fn deliver(&self, completion: &Completion) -> Result<(), String> {
        let id = HeaderValue::from_str(&completion.id.to_string()).map_err(|error| error.to_string())?;
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, id)]);
        let answer = self.0.post(completion.to_json().to_string().into_bytes(), headers).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status.is_success() {
            return Ok(());
        }
        let hint = if answer.status.is_redirection() {
            ": no redirection is followed: write the new address into producer.on_complete.url".to_owned()
        } else {
            let body = sanitize_to(answer.body.bytes().trim_ascii(), OUTPUT_KEPT);
            if body.is_empty() { body } else { format!(": {body}") }
        };
        Err(format!("{} answered with status {}{hint}", self.0.target, answer.status.as_u16()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;
    use crate::completion::CompletionId;

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

    async fn refusal(url: &str, timeout: Duration) -> String {
        let id = CompletionId::random();
        let completion = Completion { id, tcn: 5, stencils: 2, jobs: 7, started_ms: None, completed_ms: 1 };
        let webhook = Webhook::new(url, None, None, timeout).unwrap();
        let text = webhook.deliver(&completion).await.unwrap_err();
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
