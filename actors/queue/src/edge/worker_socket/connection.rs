//! One worker's connection: read a request, have it answered, write the reply, and again.

use std::{io, sync::Arc, time::Duration};

use orchestrator_edge::ConnectionSlot;
use orchestrator_supervise::{Outbox, Pending, Vitals, metrics, reply};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::slots::{BUSY, IDLE};
use crate::{
    messages::StoreRequest,
    protocol::{ProtocolError, Request, RequestParser, encode_head, encode_reply},
    storage::{HandoutId, Job},
};

/// A payload over this size, in bytes, is written from where it is instead of being copied beside its head.
const COPY_BYTES_MAX: usize = 64 * 1024;

/// Why a connection ended otherwise than by its peer's wish.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the peer does not read its reply: read it, or close")]
    Stalled,
    #[error("the store does not answer: try again")]
    StoreGone,
}

metrics! {
    /// Metrics of all connections.
    struct ReplyMetrics {
        /// Requests answered.
        answered: counter("requests") as "requests_answered",
        /// Replies whose worker had gone; their jobs are back in the queue.
        undelivered: counter("replies") as "replies_undelivered",
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    requests: Outbox<StoreRequest>,
    write_stall: Duration,
    vitals: Arc<Vitals>,
    metrics: ReplyMetrics,
}

impl Shared {
    pub(super) fn new(requests: Outbox<StoreRequest>, write_stall: Duration, vitals: Arc<Vitals>) -> Self {
        let metrics = ReplyMetrics::register(&vitals);
        Self { requests, write_stall, vitals, metrics }
    }

    async fn undo(&self, handout: HandoutId) {
        self.metrics.undelivered.add(1);
        // The store is gone only with the process; then the hand-out is undone at the next start.
        let _ = self.requests.send(StoreRequest::Undo(handout)).await;
    }
}

/// One connection's state.
pub(super) struct Conversation {
    stream: UnixStream,
    slot: Arc<ConnectionSlot>,
    shared: Arc<Shared>,
    parser: RequestParser,
    out: Vec<u8>,
    /// The hand-out of the last reply, until the peer shows a sign of life after it.
    last: Option<HandoutId>,
}

impl Conversation {
    pub(super) fn new(stream: UnixStream, slot: Arc<ConnectionSlot>, shared: Arc<Shared>) -> Self {
        Self { stream, slot, shared, parser: RequestParser::default(), out: Vec::new(), last: None }
    }

    /// Serves until the peer closes, breaks the protocol, or the slot is to be given up.
    pub(super) async fn run(mut self) -> Result<(), End> {
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
            if self.shared.vitals.is_paused() {
                tokio::select! {
                    biased;
                    () = self.slot.closing() => return Ok(()),
                    () = self.shared.vitals.wait_resumed() => {}
                }
            }
            self.slot.set_priority(BUSY);
            self.answer(request).await?;
            self.slot.set_priority(IDLE);
        }
    }

    /// Waits for bytes; true when no more will come.
    async fn read(&mut self) -> Result<bool, End> {
        let read = tokio::select! {
            biased;
            read = self.stream.read_buf(self.parser.space()) => read,
            () = self.slot.closing() => return Ok(false),
        };
        let last = self.last.take();
        match read {
            Ok(read) => Ok(read == 0),
            Err(error) => {
                // A reset right after a reply: the peer closed without reading it (CONTRACT QR27).
                if let (Some(handout), io::ErrorKind::ConnectionReset) = (last, error.kind()) {
                    self.shared.undo(handout).await;
                }
                Err(error.into())
            }
        }
    }

    async fn answer(&mut self, request: Request) -> Result<(), End> {
        let (reply, answer) = reply();
        let request = match request {
            Request::Ready => StoreRequest::Ready { reply },
            Request::Done { attr_path, exit_code } => StoreRequest::Done { attr_path, exit_code, reply },
        };
        let shared = &*self.shared;
        let mut in_progress = InProgress { shared, answer, handout: None };
        shared.requests.send(request).await.map_err(|_| End::StoreGone)?;
        let slot = &self.slot;
        let given_up = async {
            if !slot.is_closing() {
                slot.closing().await;
            }
            // A store that crashed is started again only when this child has ended.
            shared.requests.inbox_closed().await;
        };
        let job = tokio::select! {
            biased;
            job = &mut in_progress.answer => job.map_err(|_| End::StoreGone)?,
            () = given_up => return Err(End::StoreGone),
        };
        in_progress.handout = job.as_ref().map(|job| job.handout);
        match write_reply(&mut self.stream, &mut self.out, job.as_ref(), shared.write_stall).await {
            Ok(()) => {
                shared.metrics.answered.add(1);
                self.last = in_progress.handout.take();
                if let Some(handout) = self.last {
                    // Queued before this connection's next request, so the store knows it before a DONE.
                    shared
                        .requests
                        .send(StoreRequest::Delivered(handout))
                        .await
                        .map_err(|_| End::StoreGone)?;
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

/// A request in work. If its connection is dropped meanwhile, a job that was handed out for it goes back.
struct InProgress<'a> {
    shared: &'a Shared,
    answer: Pending<Option<Job>>,
    handout: Option<HandoutId>,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.answer.close();
        let unread = self.answer.try_recv().ok().flatten().flatten().map(|job| job.handout);
        if let Some(handout) = self.handout.or(unread) {
            // Full or gone: then the hand-out is undone at the next start, like after a crash.
            self.shared.metrics.undelivered.add(1);
            let _ = self.shared.requests.tell(StoreRequest::Undo(handout));
        }
    }
}

async fn write_reply(
    stream: &mut UnixStream,
    out: &mut Vec<u8>,
    job: Option<&Job>,
    stall: Duration,
) -> Result<(), End> {
    out.clear();
    match job {
        Some(job) if job.payload.len() > COPY_BYTES_MAX => {
            encode_head(Some(job), out);
            write(stream, out, stall).await?;
            write(stream, job.payload.as_bytes(), stall).await?;
            write(stream, b"\n", stall).await?;
        }
        _ => {
            encode_reply(job, out);
            write(stream, out, stall).await?;
        }
    }
    if out.capacity() > 2 * COPY_BYTES_MAX {
        *out = Vec::new();
    }
    Ok(())
}

/// Writes all of `bytes`, as long as the peer takes some of them within `stall`.
async fn write(stream: &mut UnixStream, mut bytes: &[u8], stall: Duration) -> Result<(), End> {
    while !bytes.is_empty() {
        match timeout(stall, stream.write(bytes)).await {
            Err(_) => return Err(End::Stalled),
            Ok(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(Ok(written)) => bytes = &bytes[written..],
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    Ok(())
}
