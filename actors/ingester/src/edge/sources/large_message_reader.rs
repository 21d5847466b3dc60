//! Large messages are read on the arbiter that sends them on, since another processor would have to
//! fetch them from its cache. Small ones are read on the stream's own arbiter, in parallel with the
//! sending.
//!
//! The next large message is read after the last one is sent, into the same buffer, to stay in the
//! cache. If the last one is held for long, e.g. by a slow worker, the next one is read before.

use std::time::Duration;

use orchestrator_supervise::{Factory, Fault, InboxSlot, Outbox, StartCx, inbox};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use crate::{
    edge::zmtp_stream::{Connection, StreamError},
    item::Parts,
};

/// Smallest message that is read by the reader child, bytes.
const LARGE_BYTES: usize = 256 << 10;
/// Small messages in a row after which the connection moves back; the start and end between series
/// do not.
const SMALL_RUN: u32 = 64;
/// Longest wait for the last message to be released before the next read.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(20);
/// Time without such waits after one has timed out. A slow worker then costs the others a thirtieth
/// of their rate at most.
const EAGER_PERIOD: Duration = Duration::from_millis(600);
/// Connections that may wait for the reader child: one of the stream, and those of former runs.
const CONNECTIONS_MAX: usize = 4;

/// Result of a read.
type Read = Result<Option<Parts>, StreamError>;

/// Handle of the child that reads large messages.
#[derive(Debug, Clone)]
pub(super) struct LargeMessageReader(Outbox<BorrowedSocket>);

/// A connection moved to the reader child. It is closed when the receiver is dropped.
#[derive(Debug)]
struct BorrowedSocket {
    connection: Box<Connection>,
    reads: mpsc::Sender<Returned>,
}

/// A message; with the last one the connection.
#[derive(Debug)]
struct Returned {
    read: Read,
    connection: Option<Box<Connection>>,
}

impl LargeMessageReader {
    /// The factory starts the reader child.
    pub(super) fn new() -> (Self, Factory) {
        let (connections, slot) = inbox(CONNECTIONS_MAX);
        let inbox = slot.clone();
        let child = Factory::task(move |cx| serve(inbox.clone(), cx));
        (Self(connections), child.with_inbox("connections", &slot))
    }
}

/// Messages of one connection.
#[derive(Debug)]
pub(super) struct Messages {
    location: ReaderLocation,
    reader: Option<LargeMessageReader>,
    /// The last message was large, so the next one is read by the reader child.
    is_large: bool,
}

/// Reader of the connection.
#[derive(Debug)]
enum ReaderLocation {
    Local(Box<Connection>),
    /// The reader child reads one message ahead.
    Lent(mpsc::Receiver<Returned>),
}

impl Messages {
    /// Reads `connection`; `reader` reads large messages, if given.
    pub(super) fn new(connection: Connection, reader: Option<LargeMessageReader>) -> Self {
        Self { location: ReaderLocation::Local(Box::new(connection)), reader, is_large: false }
    }

    /// Next message; None after the peer closed between two messages.
    ///
    /// # Errors
    /// See [`MessageReader::next_message`](crate::edge::zmtp_stream::MessageReader::next_message).
    /// Do not read on then.
    pub(super) async fn next(&mut self) -> Read {
        if self.is_large {
            self.lend().await;
        }
        let read = match &mut self.location {
            ReaderLocation::Local(connection) => connection.reader.next_message(&mut connection.writer).await,
            ReaderLocation::Lent(reads) => {
                // Without a message the reader child has ended and closed the connection.
                let Some(Returned { read, connection }) = reads.recv().await else { return Ok(None) };
                if let Some(connection) = connection {
                    self.location = ReaderLocation::Local(Box::new(connection.reregister()?));
                }
                read
            }
        };
        self.is_large = matches!(&read, Ok(Some(message)) if is_large(message));
        read
    }

    /// Next message if it is already buffered.
    pub(super) fn buffered(&mut self) -> Option<Parts> {
        match &mut self.location {
            ReaderLocation::Local(connection) => connection.reader.buffered(),
            ReaderLocation::Lent(_) => None,
        }
    }

    async fn lend(&mut self) {
        let (ReaderLocation::Local(_), Some(reader)) = (&self.location, &self.reader) else { return };
        let (reads, returned) = mpsc::channel(1);
        if let ReaderLocation::Local(connection) =
            std::mem::replace(&mut self.location, ReaderLocation::Lent(returned))
        {
            // If the reader child refuses, the connection closes and the next read reports that.
            let _ = reader.0.send(BorrowedSocket { connection, reads }).await;
        }
    }
}

fn is_large(message: &Parts) -> bool {
    message.iter().map(bytes::Bytes::len).sum::<usize>() >= LARGE_BYTES
}

async fn serve(connections: InboxSlot<BorrowedSocket>, cx: StartCx) -> Result<(), Fault> {
    let mut connections = connections.open();
    while let Some(BorrowedSocket { connection, reads }) = connections.next(&cx).await {
        let unwanted = reads.clone();
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => {}
            () = unwanted.closed() => {}
            () = read(connection, &reads) => {}
        }
    }
    Ok(())
}

async fn read(connection: Box<Connection>, reads: &mpsc::Sender<Returned>) {
    // Registers the socket with this runtime; otherwise each packet would wake the dialling thread.
    let mut connection = match connection.reregister() {
        Ok(connection) => Box::new(connection),
        Err(error) => {
            let _ = reads.send(Returned { read: Err(error.into()), connection: None }).await;
            return;
        }
    };
    let (mut small, mut eager_until) = (0, None);
    // Reads only after the last message was taken, which slows the sender.
    while let Ok(permit) = reads.reserve().await {
        if eager_until.is_none_or(|until| Instant::now() >= until) {
            let sent = timeout(RELEASE_TIMEOUT, connection.reader.last_is_released()).await;
            eager_until = sent.is_err().then(|| Instant::now() + EAGER_PERIOD);
        }
        let read = connection.reader.next_message(&mut connection.writer).await;
        match &read {
            Ok(Some(message)) if is_large(message) => small = 0,
            Ok(Some(_)) => small += 1,
            Ok(None) | Err(_) => small = SMALL_RUN,
        }
        if small == SMALL_RUN {
            return permit.send(Returned { read, connection: Some(connection) });
        }
        permit.send(Returned { read, connection: None });
    }
}
