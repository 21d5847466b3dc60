//! One worker's connection: the handshake, then pings in and messages out.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    sync::Arc,
};

use bytes::Bytes;
use orchestrator_edge::ConnectionSlot;
use orchestrator_supervise::{Metric, Recipient};
use tokio::{net::TcpStream, sync::Notify, task::yield_now};

use super::{
    Egress,
    staging::{SLICES, Staging},
    standing::Standing,
};
use crate::{
    edge::zmtp_stream::{Local, StreamError, handshake},
    messages::WorkerPinged,
    zmtp::{Command, Decoder, FrameLimits, Incoming, SocketType, ZmtpError},
};

/// Workers send 16 bytes at a time.
const LIMITS: FrameLimits = FrameLimits { frame_max: 64 * 1024, message_max: 64 * 1024, parts_max: 64 };

/// Room for what a worker sends, bytes: a few pings, or a READY.
const BLOCK: usize = 1024;

/// A connection that has written so much, bytes, lets others have a turn.
const TURN_BYTES: usize = 1 << 20;

/// A connection that sends lets others have a turn after so many reads and messages.
const TURN_STEPS: u32 = 64;

/// A worker that sends PINGs of ZMTP and reads nothing is not answered beyond so many bytes.
const PONG_BYTES_MAX: usize = 4096;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// Before it was ready for messages.
    #[error("{0}")]
    Refused(StreamError),
    #[error("{0}")]
    Broken(#[from] StreamError),
    #[error("closed by the worker")]
    Closed,
    #[error("given up: its worker has dialled again, a new mapping begins, or its slot was needed")]
    GivenUp,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.into())
    }
}

impl From<ZmtpError> for End {
    fn from(error: ZmtpError) -> Self {
        Self::Broken(error.into())
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) egress: Egress,
    pub(super) pings: Recipient<WorkerPinged>,
    pub(super) bad_pings: Metric,
}

/// Serves one connection to its end.
pub(super) async fn serve(stream: TcpStream, slot: &ConnectionSlot, shared: &Shared) -> End {
    tokio::select! {
        biased;
        () = slot.closing() => End::GivenUp,
        end = converse(stream, slot, shared) => end,
    }
}

async fn converse(stream: TcpStream, slot: &ConnectionSlot, shared: &Shared) -> End {
    let local = Local {
        socket_type: SocketType::Router,
        identity: Bytes::new(),
        limits: LIMITS,
        block_bytes: BLOCK,
        deadline: shared.egress.inner.limits.handshake_deadline,
    };
    let connection = match handshake(stream, &local).await {
        Ok(connection) => connection,
        Err(error) => return End::Refused(error),
    };
    let name = std::str::from_utf8(&connection.peer.identity).ok().filter(|name| !name.is_empty());
    let Some(name) = name.map(Arc::from) else {
        let text = "no identity: set it to the worker's name, in UTF-8";
        // It is refused whether or not it takes the reason.
        let _ = connection.writer.try_write(&Command::error(text));
        return End::Refused(ZmtpError::Malformed("the peer has no identity that is a name").into());
    };
    Standing::Guest.note(slot);
    let (read, decoder) = connection.reader.into_parts();
    let stream = match read.reunite(connection.writer) {
        Ok(stream) => Arc::new(stream),
        Err(error) => return End::Refused(io::Error::other(error).into()),
    };
    let wake = Arc::new(Notify::new());
    let id = shared.egress.lock().attach(&name, stream.clone(), wake.clone(), slot.close_notify());
    let line = Line { egress: &shared.egress, name, id, stream, wake, pongs: RefCell::default() };
    tokio::select! {
        biased;
        end = line.listen(decoder, slot, shared) => end,
        end = line.speak() => end,
    }
}

/// A connection that is its worker's. Dropped, it leaves the queue to the next one.
struct Line<'a> {
    egress: &'a Egress,
    name: Arc<str>,
    id: u64,
    stream: Arc<TcpStream>,
    wake: Arc<Notify>,
    /// Answers to PINGs of ZMTP, which go out between two batches of messages.
    pongs: RefCell<Vec<u8>>,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.egress.lock().detach(&self.name, self.id);
    }
}

impl Line<'_> {
    /// Takes pings until the connection ends.
    async fn listen(&self, mut decoder: Decoder, slot: &ConnectionSlot, shared: &Shared) -> End {
        let mut turn = 0_u32;
        loop {
            match decoder.next() {
                Ok(Some(Incoming::Message(parts))) => self.take_ping(&parts, slot, shared),
                Ok(Some(Incoming::Command(body))) => match Command::decode(body) {
                    Ok(command) => self.take_command(command),
                    Err(error) => return error.into(),
                },
                Ok(None) => match self.stream.try_read_buf(&mut decoder.space()) {
                    Ok(0) => return End::Closed,
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
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(TURN_STEPS) {
                yield_now().await;
            }
        }
    }

    fn take_ping(&self, parts: &[Bytes], slot: &ConnectionSlot, shared: &Shared) {
        let [uuid] = parts else { return shared.bad_pings.add(1) };
        let Ok(service_uuid) = <[u8; 16]>::try_from(&uuid[..]) else { return shared.bad_pings.add(1) };
        Standing::Worker.note(slot);
        // What is refused is counted by the mailbox. The next ping comes in two seconds.
        let _ = shared.pings.tell(WorkerPinged { worker: self.name.clone(), service_uuid });
    }

    fn take_command(&self, command: Command) {
        if let Command::Ping(context) = command {
            let mut pongs = self.pongs.borrow_mut();
            if pongs.len() < PONG_BYTES_MAX {
                pongs.extend_from_slice(&Command::pong(&context));
                self.wake.notify_one();
            }
        }
    }

    /// Writes what waits for the worker until the connection ends.
    async fn speak(&self) -> End {
        let mut staging = Staging::default();
        let mut turn = 0;
        loop {
            if staging.is_empty() {
                staging.add_bytes(&std::mem::take(&mut *self.pongs.borrow_mut()));
                if self.egress.lock().stage(&self.name, self.id, &mut staging).is_none() {
                    return End::GivenUp;
                }
                if staging.is_empty() {
                    self.wake.notified().await;
                    continue;
                }
            }
            match self.write(&mut staging) {
                Ok(Some(bytes)) => turn += bytes,
                Ok(None) => return End::GivenUp,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = self.stream.writable().await {
                        return error.into();
                    }
                }
                Err(error) => return error.into(),
            }
            if turn >= TURN_BYTES {
                turn = 0;
                yield_now().await;
            }
        }
    }

    /// Writes once. None: the connection was replaced or reset.
    fn write(&self, staging: &mut Staging) -> io::Result<Option<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = staging.slices(&mut slices);
        let bytes = self.stream.try_write_vectored(&slices[..count])?;
        let messages = staging.advance(bytes);
        let news = self.egress.lock().sent(&self.name, self.id, messages, bytes);
        Ok(news.map(|news| {
            self.egress.tell(news);
            bytes
        }))
    }
}
