//! A client of `/v1/events`, over any stream.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    time::timeout,
};

/// Time within which an event has to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One received event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedEvent {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

pub(crate) struct EventReader<S> {
    stream: BufReader<S>,
    text: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin> EventReader<S> {
    /// Opens the stream and reads its header and first lines.
    pub(crate) async fn open(mut stream: S, query: &str, headers: &str) -> Self {
        let request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reader = Self { stream: BufReader::new(stream), text: String::new() };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.stream.read_line(&mut head).await.unwrap() > 0, "no stream: {head}");
        }
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        let opening = reader.block().await.expect("the first lines");
        assert!(opening.starts_with(": events after"), "{opening}");
        reader
    }

    /// Leaves out comments; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<ReceivedEvent> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let Some(data) = field("data:") {
                return Some(ReceivedEvent {
                    id: field("id:").map(|id| id.parse().unwrap()),
                    event: field("event:").unwrap_or_default().to_owned(),
                    data: serde_json::from_str(data).unwrap(),
                });
            }
        }
    }

    /// Lines up to an empty one.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let rest = self.text.split_off(end + 2);
                return Some(std::mem::replace(&mut self.text, rest));
            }
            let chunk = timeout(TIMEOUT, self.chunk()).await.expect("events in time")?;
            self.text.push_str(&chunk);
        }
    }

    async fn chunk(&mut self) -> Option<String> {
        let mut size = String::new();
        self.stream.read_line(&mut size).await.ok().filter(|read| *read > 0)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.ok()?;
        chunk.truncate(size);
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    pub(crate) fn stream(&mut self) -> &mut S {
        self.stream.get_mut()
    }
}
