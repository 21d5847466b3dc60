//! Run of one stream: reads the socket on which the process sends the stream's items.

use std::{collections::VecDeque, os::fd::OwnedFd, os::unix::net::UnixStream as BlockingStream};

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, unfold};
use orchestrator_ingester_zmtp::{FrameLimits, Incoming};
use orchestrator_supervise::Outbox;
use orchestrator_text::sanitize;
use tokio::net::UnixStream;

use super::{redaction::Redaction, request::Request};
use crate::{
    edge::zmtp_stream::{MessageReader, StreamError},
    item::{Item, Parts},
    source::{Items, Source, SourceCx, SourceError},
};

/// Bytes of one read of small items.
const BLOCK: usize = 256 << 10;
/// Most items of one batch.
const BATCH: usize = 256;
/// Limits of items; the first part is the type.
const LIMITS: FrameLimits = FrameLimits { frame_max: 1 << 30, message_max: 1 << 30, parts_max: 4_097 };
/// Longest type of an item, bytes.
const TYP_MAX: usize = 256;

/// Source of one run.
pub(super) struct PythonSource {
    requests: Outbox<Request>,
    redaction: Redaction,
    mapping: u64,
}

impl PythonSource {
    pub(super) fn new(requests: Outbox<Request>, redaction: Redaction) -> Self {
        Self { requests, redaction, mapping: 0 }
    }
}

impl Source for PythonSource {
    fn run(&mut self, cx: SourceCx) -> Items {
        self.mapping = cx.mapping;
        let (requests, redaction) = (self.requests.clone(), self.redaction.clone());
        let run = ClassRun { requests, redaction, cx, reader: None, end: None };
        let batches = unfold(Box::new(run), |mut run| async move { Some((run.batch().await?, run)) });
        batches.flat_map(iter).boxed_local()
    }

    /// A class may subscribe to a publisher.
    fn connects_first(&self) -> bool {
        true
    }

    fn finish(&mut self) {
        // The hook of the class is missed only if the process does not read.
        let _ = self.requests.tell(Request::Finished(self.mapping));
    }
}

struct ClassRun {
    requests: Outbox<Request>,
    redaction: Redaction,
    cx: SourceCx,
    reader: Option<MessageReader<UnixStream>>,
    /// The run has ended, and the error was not returned yet.
    end: Option<Result<(), SourceError>>,
}

/// Message of the process.
#[derive(Debug, PartialEq, Eq)]
enum ProcessMessage {
    /// The generator runs.
    Running,
    /// An item.
    Item(Item),
    /// The generator has returned.
    Ended,
    /// The class raised an exception.
    Raised(Bytes),
}

impl ClassRun {
    /// Next items, with those that arrived with them; None after the end.
    async fn batch(&mut self) -> Option<Vec<Result<Item, SourceError>>> {
        loop {
            match self.end.take() {
                Some(Ok(())) => return None,
                Some(Err(error)) => {
                    self.end = Some(Ok(()));
                    return Some(vec![Err(error)]);
                }
                None => {}
            }
            let mut items = VecDeque::new();
            if let Err(error) = self.read(&mut items).await {
                self.end = Some(Err(error));
            }
            if self.end.is_some() {
                self.cx.link.idle();
            }
            if !items.is_empty() {
                return Some(items.into_iter().map(Ok).collect());
            }
        }
    }

    async fn read(&mut self, items: &mut VecDeque<Item>) -> Result<(), SourceError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => self.reader.insert(begin(&self.requests, &self.cx).await?),
        };
        let mut message = match reader.next().await {
            Ok(Some(Incoming::Message(parts))) => Some(parts),
            Ok(Some(Incoming::Command(_))) => return Err(invalid("a command")),
            Err(StreamError::Zmtp(error)) => return Err(invalid(&error.to_string())),
            Ok(None) | Err(_) => {
                let text = "the Python process has ended or left the scan: its child in the tree shows why";
                return Err(SourceError(text.to_owned()));
            }
        };
        while let Some(parts) = message {
            match decode(parts)? {
                ProcessMessage::Running => self.cx.link.up(),
                ProcessMessage::Item(item) => items.push_back(item),
                ProcessMessage::Ended => {
                    self.end = Some(Ok(()));
                    return Ok(());
                }
                ProcessMessage::Raised(text) => return Err(SourceError(self.redaction.apply(&text))),
            }
            message = if items.len() < BATCH { reader.buffered() } else { None };
        }
        Ok(())
    }
}

/// Creates the socket of this run and gives its other end to the process.
async fn begin(requests: &Outbox<Request>, cx: &SourceCx) -> Result<MessageReader<UnixStream>, SourceError> {
    let failed = |error: std::io::Error| SourceError(format!("no socket for the Python process: {error}"));
    cx.link.connecting(0);
    let (ours, theirs) = BlockingStream::pair().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let ours = UnixStream::from_std(ours).map_err(failed)?;
    let request =
        Request::Run { stream: cx.stream.clone(), mapping: cx.mapping, socket: OwnedFd::from(theirs) };
    // It fails only at the end of the program.
    let _ = requests.send(request).await;
    Ok(MessageReader::without_handshake(ours, LIMITS, BLOCK))
}

fn decode(mut parts: Parts) -> Result<ProcessMessage, SourceError> {
    let head = if parts.is_empty() { Bytes::new() } else { parts.remove(0) };
    match head.split_first() {
        Some((b'r', _)) => Ok(ProcessMessage::Running),
        Some((b'n', _)) => Ok(ProcessMessage::Ended),
        Some((b'e', _)) => Ok(ProcessMessage::Raised(head.slice(1..))),
        Some((b'i', typ)) if typ.len() <= TYP_MAX => match std::str::from_utf8(typ) {
            Ok(typ) => {
                Ok(ProcessMessage::Item(Item { typ: typ.to_owned().into(), frames: parts, number: None }))
            }
            Err(_) => Err(invalid("a type that is not UTF-8")),
        },
        _ => Err(invalid(&sanitize(&head[..head.len().min(64)]))),
    }
}

fn invalid(what: &str) -> SourceError {
    SourceError(format!("the Python process sent {what}: does the class write to the sockets of others?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[&[u8]]) -> Parts {
        list.iter().map(|part| Bytes::copy_from_slice(part)).collect()
    }

    #[test]
    fn messages_are_recognised_and_anything_else_is_an_error() {
        let item = Item { typ: "STINS".into(), frames: parts(&[b"", b"x"]), number: None };
        assert_eq!(decode(parts(&[b"iSTINS", b"", b"x"])).expect("valid"), ProcessMessage::Item(item));
        assert_eq!(decode(parts(&[b"r"])).expect("valid"), ProcessMessage::Running);
        assert_eq!(decode(parts(&[b"n"])).expect("valid"), ProcessMessage::Ended);
        assert_eq!(decode(parts(&[b"eno"])).expect("valid"), ProcessMessage::Raised("no".into()));
        for bad in [&b""[..], b"\x1b[2J", b"i\xff", &[b'i'; 258]] {
            let error = decode(parts(&[bad])).expect_err("invalid").to_string();
            assert!(!error.contains('\u{1b}'), "{error}");
        }
        decode(Parts::new()).expect_err("no parts");
    }
}
