//! Long messages are read on the arbiter that sends them on: what one processor has read, another one would fetch again from its
//! cache. Short ones are read and taken apart beside the sending, on the stream's own arbiter.
//!
//! And one is read after the other is sent, into the same buffer: several would take turns in the cache. Only where that takes
//! long, since a worker is slow or the dump still has it, is the next one read before.

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

/// From here on a message is long, bytes: handing it over costs less than fetching it.
const LONG: usize = 256 << 10;
/// So many short messages in a row bring a connection back: a start and an end between long ones do not.
const SHORT: u32 = 64;
/// So long the next message waits for the last one to be sent.
const PATIENCE: Duration = Duration::from_millis(20);
/// So long none waits after one has waited in vain: a slow worker costs the others a thirtieth of their rate at the most.
const IMPATIENCE: Duration = Duration::from_millis(600);
/// Connections that may wait: a stream has one, and a run that has ended may have left one behind.
const WAITING: usize = 4;

/// What a read gives.
type Read = Result<Option<Parts>, StreamError>;

/// Reads messages elsewhere: in a child, the companion of its stream.
#[derive(Debug, Clone)]
pub(super) struct LongReader(Outbox<Loan>);

/// A connection that is lent; it is closed when its messages are not wanted any more.
#[derive(Debug)]
struct Loan {
    connection: Box<Connection>,
    reads: mpsc::Sender<Returned>,
}

/// A message, with the last one the connection.
#[derive(Debug)]
struct Returned {
    read: Read,
    connection: Option<Box<Connection>>,
}

impl LongReader {
    /// A reader, and the child that it needs.
    pub(super) fn new() -> (Self, Factory) {
        let (loans, slot) = inbox(WAITING);
        let inbox = slot.clone();
        let child = Factory::task(move |cx| serve(inbox.clone(), cx));
        (Self(loans), child.with_inbox("connections", &slot))
    }
}

/// The messages of one connection.
#[derive(Debug)]
pub(super) struct Messages {
    at: At,
    reader: Option<LongReader>,
    /// Was the last one long? The next one is read as such, too.
    is_long: bool,
}

/// Where they are read.
#[derive(Debug)]
enum At {
    Here(Box<Connection>),
    /// One is read ahead.
    Lent(mpsc::Receiver<Returned>),
}

impl Messages {
    /// Of `connection`; long ones are read by `reader`, if there is one.
    pub(super) fn new(connection: Connection, reader: Option<LongReader>) -> Self {
        Self { at: At::Here(Box::new(connection)), reader, is_long: false }
    }

    /// The next message; None after the peer closed between two.
    ///
    /// # Errors
    /// As [`MessageReader::next_message`](crate::edge::zmtp_stream::MessageReader::next_message). Do not go on then.
    pub(super) async fn next(&mut self) -> Read {
        if self.is_long {
            self.lend().await;
        }
        let read = match &mut self.at {
            At::Here(connection) => connection.reader.next_message(&mut connection.writer).await,
            At::Lent(reads) => {
                // Without a word the reader has ended, with the connection.
                let Some(Returned { read, connection }) = reads.recv().await else { return Ok(None) };
                if let Some(connection) = connection {
                    self.at = At::Here(Box::new(connection.moved_here()?));
                }
                read
            }
        };
        self.is_long = matches!(&read, Ok(Some(message)) if is_long(message));
        read
    }

    /// The next message if it is here, and read already.
    pub(super) fn buffered(&mut self) -> Option<Parts> {
        match &mut self.at {
            At::Here(connection) => connection.reader.buffered(),
            At::Lent(_) => None,
        }
    }

    async fn lend(&mut self) {
        let (At::Here(_), Some(reader)) = (&self.at, &self.reader) else { return };
        let (reads, returned) = mpsc::channel(1);
        if let At::Here(connection) = std::mem::replace(&mut self.at, At::Lent(returned)) {
            // Refused it is closed, which the next read tells.
            let _ = reader.0.send(Loan { connection, reads }).await;
        }
    }
}

fn is_long(message: &Parts) -> bool {
    message.iter().map(bytes::Bytes::len).sum::<usize>() >= LONG
}

async fn serve(loans: InboxSlot<Loan>, cx: StartCx) -> Result<(), Fault> {
    let mut loans = loans.open();
    while let Some(Loan { connection, reads }) = loans.next(&cx).await {
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
    // Here, and not where it was dialled, its readiness is waited for: each packet that comes would wake that thread.
    let mut connection = match connection.moved_here() {
        Ok(connection) => Box::new(connection),
        Err(error) => {
            let _ = reads.send(Returned { read: Err(error.into()), connection: None }).await;
            return;
        }
    };
    let (mut short, mut impatient_until) = (0, None);
    // Not before the last one was taken: what nobody takes is not read, which slows the sender.
    while let Ok(permit) = reads.reserve().await {
        if impatient_until.is_none_or(|until| Instant::now() >= until) {
            let sent = timeout(PATIENCE, connection.reader.last_is_released()).await;
            impatient_until = sent.is_err().then(|| Instant::now() + IMPATIENCE);
        }
        let read = connection.reader.next_message(&mut connection.writer).await;
        match &read {
            Ok(Some(message)) if is_long(message) => short = 0,
            Ok(Some(_)) => short += 1,
            Ok(None) | Err(_) => short = SHORT,
        }
        if short == SHORT {
            return permit.send(Returned { read, connection: Some(connection) });
        }
        permit.send(Returned { read, connection: None });
    }
}
