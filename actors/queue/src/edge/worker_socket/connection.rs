//! A worker's connection: reads a request, waits for its answer, writes the reply, and repeats.

use std::{io, sync::Arc, time::Duration};

use orchestrator_edge::ConnectionSlot;
use orchestrator_observe::metrics;
use orchestrator_queue_rules::{
    protocol::{ProtocolError, Request, RequestParser, encode_head, encode_reply},
    storage::{HandoutId, Job},
};
use orchestrator_queue_store::LastRequest;
use orchestrator_supervise::{ChildState, Outbox, Pending, Vitals, reply};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::slots::{BUSY, IDLE};
use crate::messages::{StoreRequest, UnsentJob};

/// Size, in bytes, above which a payload is written without being copied into the output buffer.
const COPY_BYTES_MAX: usize = 64 * 1024;

/// Time after which a peer that reads nothing loses its reply and its connection (CONTRACT QE03).
const WRITE_STALL: Duration = Duration::from_secs(10);

/// Rate below which a peer loses a payload that is not copied, in bytes per second: others wait for its room.
const READ_RATE_MIN: u64 = 256 << 10;

/// Error that ends a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the peer did not read its reply in time")]
    Stalled,
    #[error("the queue store ended before it answered")]
    StoreGone,
}

metrics! {
    /// Metrics of all worker connections.
    struct ReplyMetrics {
        /// Requests answered with a job or `NOJOBS`.
        answered: counter("requests"),
        /// Replies that could not be delivered; their jobs are available again.
        undelivered: counter("replies"),
    }
}

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct Shared {
    requests: Outbox<StoreRequest>,
    last_request: LastRequest,
    child: Arc<ChildState>,
    metrics: ReplyMetrics,
    /// Time that an answer may take once its connection is closing.
    last_answer: Duration,
}

impl Shared {
    pub(super) fn new(
        requests: Outbox<StoreRequest>,
        last_request: LastRequest,
        child: Arc<ChildState>,
        last_answer: Duration,
    ) -> Self {
        let metrics = ReplyMetrics::register(child.vitals());
        Self { requests, last_request, child, metrics, last_answer }
    }

    pub(super) fn vitals(&self) -> &Vitals {
        self.child.vitals()
    }

    async fn undo(&self, handout: HandoutId) {
        self.metrics.undelivered.add(1);
        // The store only closes with the process; the next start then undoes the hand-out.
        let _ = self.requests.send(StoreRequest::Undo(handout)).await;
    }
}

/// State of one connection.
pub(super) struct WorkerConnection {
    stream: UnixStream,
    slot: Arc<ConnectionSlot>,
    shared: Arc<Shared>,
    /// Number of the connection and process of the peer, for the record of attempts.
    name: Arc<str>,
    parser: RequestParser,
    out: Vec<u8>,
    /// Hand-out of the last reply, until the peer sends something.
    last_handout: Option<HandoutId>,
}

impl WorkerConnection {
    pub(super) fn new(
        stream: UnixStream,
        slot: Arc<ConnectionSlot>,
        shared: Arc<Shared>,
        name: Arc<str>,
    ) -> Self {
        let parser = RequestParser::default();
        Self { stream, slot, shared, name, parser, out: Vec::new(), last_handout: None }
    }

    /// Serves requests until the peer closes, violates the protocol, or the slot is taken away.
    pub(super) async fn run(mut self) -> Result<(), ConnectionError> {
        let mut half_closed = false;
        loop {
            if self.slot.is_closing() {
                return Ok(());
            }
            let request = match self.parser.next_request()? {
                Some(request) => request,
                None if half_closed => match self.parser.last_request()? {
                    Some(request) => request,
                    None => return Ok(()),
                },
                None => {
                    half_closed = self.read().await?;
                    continue;
                }
            };
            if self.shared.child.is_paused() {
                tokio::select! {
                    biased;
                    () = self.slot.closing() => return Ok(()),
                    () = self.shared.child.wait_resumed() => {}
                }
            }
            self.slot.set_priority(BUSY);
            self.answer(request).await?;
            self.slot.set_priority(IDLE);
        }
    }

    /// Waits for bytes. Returns true at the end of the stream.
    async fn read(&mut self) -> Result<bool, ConnectionError> {
        let read = tokio::select! {
            biased;
            read = self.stream.read_buf(self.parser.space()) => read,
            () = self.slot.closing() => return Ok(false),
        };
        let last_handout = self.last_handout.take();
        match read {
            Ok(read) => Ok(read == 0),
            Err(error) => {
                // A reset right after a reply means that the peer closed without reading it
                // (CONTRACT QR27).
                if let (Some(handout), io::ErrorKind::ConnectionReset) = (last_handout, error.kind()) {
                    self.shared.undo(handout).await;
                }
                Err(error.into())
            }
        }
    }

    async fn answer(&mut self, request: Request) -> Result<(), ConnectionError> {
        self.shared.last_request.record();
        let (reply, answer) = reply();
        let request = StoreRequest::Worker { request, connection: self.name.clone(), reply };
        let shared = &*self.shared;
        let mut in_progress = InProgress { shared, answer, handout: None };
        shared.requests.send(request).await.map_err(|_| ConnectionError::StoreGone)?;
        let slot = &self.slot;
        let abandoned = async {
            if !slot.is_closing() {
                slot.closing().await;
            }
            // A crashed store is restarted only after this child has ended.
            let _ = timeout(shared.last_answer, shared.requests.inbox_closed()).await;
        };
        let job = tokio::select! {
            biased;
            job = &mut in_progress.answer => job.map_err(|_| ConnectionError::StoreGone)?,
            () = abandoned => return Err(ConnectionError::StoreGone),
        };
        in_progress.handout = job.as_ref().map(|unsent| unsent.job.handout);
        let written =
            write_reply(&mut self.stream, &mut self.out, job.as_ref().map(|unsent| &unsent.job)).await;
        // Before a message to the store, which then sees the room.
        drop(job);
        match written {
            Ok(()) => {
                shared.metrics.answered.add(1);
                self.last_handout = in_progress.handout.take();
                if let Some(handout) = self.last_handout {
                    // Sent before this connection's next request, so that the store knows of it
                    // before a DONE.
                    shared
                        .requests
                        .send(StoreRequest::Delivered(handout))
                        .await
                        .map_err(|_| ConnectionError::StoreGone)?;
                }
                Ok(())
            }
            Err(end) => {
                if let Some(handout) = in_progress.handout.take() {
                    shared.undo(handout).await;
                }
                Err(end)
            }
        }
    }
}

/// A request in progress. If its connection is dropped, its hand-out is undone.
struct InProgress<'a> {
    shared: &'a Shared,
    answer: Pending<Option<UnsentJob>>,
    handout: Option<HandoutId>,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let unread = self.answer.try_recv().ok().flatten().flatten().map(|unsent| unsent.job.handout);
        if let Some(handout) = self.handout.or(unread) {
            // If the inbox is full or closed, the next start undoes the hand-out.
            self.shared.metrics.undelivered.add(1);
            let _ = self.shared.requests.tell(StoreRequest::Undo(handout));
        }
    }
}

async fn write_reply(
    stream: &mut UnixStream,
    out: &mut Vec<u8>,
    job: Option<&Job>,
) -> Result<(), ConnectionError> {
    out.clear();
    match job {
        Some(job) if job.payload.len() > COPY_BYTES_MAX => {
            encode_head(Some(job), out);
            let span = WRITE_STALL + Duration::from_secs(job.payload.len() as u64 / READ_RATE_MIN);
            let written = timeout(span, async {
                write(stream, out).await?;
                write(stream, job.payload.as_bytes()).await?;
                write(stream, b"\n").await
            });
            written.await.unwrap_or(Err(ConnectionError::Stalled))?;
        }
        _ => {
            encode_reply(job, out);
            write(stream, out).await?;
        }
    }
    if out.capacity() > 2 * COPY_BYTES_MAX {
        *out = Vec::new();
    }
    Ok(())
}

/// Writes all of `bytes`; fails if the peer takes none of them within [`WRITE_STALL`].
async fn write(stream: &mut UnixStream, mut bytes: &[u8]) -> Result<(), ConnectionError> {
    while !bytes.is_empty() {
        match timeout(WRITE_STALL, stream.write(bytes)).await {
            Err(_) => return Err(ConnectionError::Stalled),
            Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    Ok(())
}
