//! Connection of one worker: the handshake, then pings in and messages out.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use orchestrator_edge::ConnectionSlot;
use orchestrator_ingester_zmtp::{Command, Decoder, FrameLimits, Incoming, SocketType, ZmtpError};
use orchestrator_observe::Metric;
use orchestrator_supervise::Recipient;
use tokio::{net::TcpStream, sync::Notify, task::yield_now};

use super::{
    Egress,
    eviction::Priority,
    staging::{SLICES, Staging},
};
use crate::{
    edge::zmtp_stream::{HandshakeOptions, StreamError, handshake},
    messages::WorkerPinged,
};

/// Limits of a worker's messages; a ping has 16 bytes.
const LIMITS: FrameLimits = FrameLimits { frame_max: 64 * 1024, message_max: 64 * 1024, parts_max: 64 };

/// Read block of a connection, bytes: some pings, or a READY.
const BLOCK_BYTES: usize = 1024;

/// Bytes written after which a connection yields.
const YIELD_BYTES: usize = 1 << 20;

/// Reads and messages after which a connection yields.
const YIELD_STEPS: u32 = 64;

/// Most pending PONG bytes; further PINGs of ZMTP are not answered.
const PONG_BYTES_MAX: usize = 4096;

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum CloseReason {
    /// The handshake failed.
    #[error("{0}")]
    Refused(StreamError),
    #[error("{0}")]
    Broken(#[from] StreamError),
    #[error("closed by the worker")]
    Closed,
    #[error(
        "closed by the ingester: the worker connected again, a new mapping began, or its slot was needed"
    )]
    Superseded,
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl From<ZmtpError> for CloseReason {
    fn from(error: ZmtpError) -> Self {
        Self::Broken(error.into())
    }
}

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) egress: Egress,
    pub(super) pings: Recipient<WorkerPinged>,
    pub(super) bad_pings: Metric,
}

pub(super) async fn serve(stream: TcpStream, slot: &ConnectionSlot, shared: &Shared) -> CloseReason {
    tokio::select! {
        biased;
        () = slot.closing() => CloseReason::Superseded,
        reason = run_session(stream, slot, shared) => reason,
    }
}

async fn run_session(stream: TcpStream, slot: &ConnectionSlot, shared: &Shared) -> CloseReason {
    let options = HandshakeOptions {
        socket_type: SocketType::Router,
        identity: Bytes::new(),
        limits: LIMITS,
        block_bytes: BLOCK_BYTES,
        deadline: shared.egress.inner.limits.handshake_deadline,
    };
    let connection = match handshake(stream, &options).await {
        Ok(connection) => connection,
        Err(error) => return CloseReason::Refused(error),
    };
    let name = std::str::from_utf8(&connection.peer.identity).ok().filter(|name| !name.is_empty());
    let Some(name) = name.map(Arc::from) else {
        let text = "no identity: set the socket's identity to the worker's name, in UTF-8";
        // The peer is refused even if it does not take the reason.
        let _ = connection.writer.try_write(&Command::error(text));
        return CloseReason::Refused(
            ZmtpError::Malformed("the peer's identity is empty or not UTF-8").into(),
        );
    };
    Priority::Identified.raise(slot);
    let (read, decoder) = connection.reader.into_parts();
    let stream = match read.reunite(connection.writer) {
        Ok(stream) => Arc::new(stream),
        Err(error) => return CloseReason::Refused(io::Error::other(error).into()),
    };
    let wake = Arc::new(Notify::new());
    let now = Instant::now();
    let id = shared.egress.lock().attach(&name, stream.clone(), wake.clone(), slot.close_notify(), now);
    let worker =
        WorkerConnection { egress: &shared.egress, name, id, stream, wake, pongs: RefCell::default() };
    tokio::select! {
        biased;
        reason = worker.read_loop(decoder, slot, shared) => reason,
        reason = worker.write_loop() => reason,
    }
}

/// A worker's connection after the handshake. Its drop leaves the queue to the next connection.
struct WorkerConnection<'a> {
    egress: &'a Egress,
    name: Arc<str>,
    id: u64,
    stream: Arc<TcpStream>,
    wake: Arc<Notify>,
    /// PONGs of ZMTP, written between two batches of messages.
    pongs: RefCell<Vec<u8>>,
}

impl Drop for WorkerConnection<'_> {
    fn drop(&mut self) {
        self.egress.lock().detach(&self.name, self.id);
    }
}

impl WorkerConnection<'_> {
    /// Reads pings until the connection ends.
    async fn read_loop(&self, mut decoder: Decoder, slot: &ConnectionSlot, shared: &Shared) -> CloseReason {
        let mut since_yield = 0_u32;
        loop {
            match decoder.decode() {
                Ok(Some(Incoming::Message(parts))) => self.handle_ping(&parts, slot, shared),
                Ok(Some(Incoming::Command(body))) => match Command::decode(body) {
                    Ok(command) => self.handle_command(command),
                    Err(error) => return error.into(),
                },
                Ok(None) => match self.stream.try_read_buf(&mut decoder.space()) {
                    Ok(0) => return CloseReason::Closed,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if let Err(error) = self.stream.readable().await {
                            return error.into();
                        }
                    }
                    Err(error) => return error.into(),
                },
                Err(error) => return error.into(),
            }
            since_yield = since_yield.wrapping_add(1);
            if since_yield.is_multiple_of(YIELD_STEPS) {
                yield_now().await;
            }
        }
    }

    fn handle_ping(&self, parts: &[Bytes], slot: &ConnectionSlot, shared: &Shared) {
        let [uuid] = parts else { return shared.bad_pings.add(1) };
        let Ok(service_uuid) = <[u8; 16]>::try_from(&uuid[..]) else { return shared.bad_pings.add(1) };
        Priority::Worker.raise(slot);
        self.egress.lock().pinged(&self.name, self.id, Instant::now());
        // A refused ping is counted by the mailbox; workers ping every two seconds.
        let _ = shared.pings.tell(WorkerPinged { worker: self.name.clone(), service_uuid });
    }

    fn handle_command(&self, command: Command) {
        if let Command::Ping(context) = command {
            let mut pongs = self.pongs.borrow_mut();
            if pongs.len() < PONG_BYTES_MAX {
                pongs.extend_from_slice(&Command::pong(&context));
                self.wake.notify_one();
            }
        }
    }

    /// Writes queued messages until the connection ends.
    async fn write_loop(&self) -> CloseReason {
        let mut staging = Staging::default();
        let mut since_yield = 0;
        loop {
            if staging.is_empty() {
                staging.add_bytes(&std::mem::take(&mut *self.pongs.borrow_mut()));
                if self.egress.lock().stage(&self.name, self.id, &mut staging).is_none() {
                    return CloseReason::Superseded;
                }
                if staging.is_empty() {
                    self.wake.notified().await;
                    continue;
                }
            }
            match self.write_batch(&mut staging) {
                Ok(Some(bytes)) => since_yield += bytes,
                Ok(None) => return CloseReason::Superseded,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = self.stream.writable().await {
                        return error.into();
                    }
                }
                Err(error) => return error.into(),
            }
            if since_yield >= YIELD_BYTES {
                since_yield = 0;
                yield_now().await;
            }
        }
    }

    /// Writes once. None: the connection was replaced or reset.
    fn write_batch(&self, staging: &mut Staging) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = staging.slices(&mut slices);
        let bytes = self.stream.try_write_vectored(&slices[..count])?;
        let messages = staging.advance(bytes);
        let wakeups = self.egress.lock().sent(&self.name, self.id, (messages, bytes), Instant::now());
        Ok(wakeups.map(|wakeups| {
            self.egress.wake(wakeups);
            bytes
        }))
    }
}
