//! Long messages are read on the arbiter that sends them on: what one processor has read, another one would fetch again from its
//! cache. Short ones are read and taken apart beside the sending, on the stream's own arbiter.

use orchestrator_supervise::{Factory, Fault, InboxSlot, Outbox, StartCx, inbox};
use tokio::sync::oneshot;

use crate::{
    edge::zmtp_stream::{Connection, StreamError},
    item::Parts,
};

/// From here on a message is long, bytes: handing it over costs less than fetching it.
const LONG: usize = 256 << 10;

/// Requests that may wait: a stream has one connection, and a run that has ended may have left one behind.
const REQUESTS: usize = 4;

/// What a read gives.
pub(super) type Read = Result<Option<Parts>, StreamError>;

/// Reads messages elsewhere: in a child, the companion of its stream.
#[derive(Debug, Clone)]
pub(super) struct LongReader(Outbox<Request>);

/// A connection, lent for one message.
#[derive(Debug)]
struct Request {
    connection: Box<Connection>,
    /// Dropped by a run that ends: the connection ends with it.
    answer: oneshot::Sender<(Box<Connection>, Read)>,
}

impl LongReader {
    /// A reader, and the child that it needs.
    pub(super) fn new() -> (Self, Factory) {
        let (requests, slot) = inbox(REQUESTS);
        let inbox = slot.clone();
        let child = Factory::task(move |cx| serve(inbox.clone(), cx));
        (Self(requests), child.with_inbox("connections", &slot))
    }

    /// The next message of `connection`. None: the child has ended, and the connection with it.
    pub(super) async fn next_message(&self, connection: Box<Connection>) -> Option<(Box<Connection>, Read)> {
        let (answer, read) = oneshot::channel();
        self.0.send(Request { connection, answer }).await.ok()?;
        read.await.ok()
    }
}

/// Is the next message to be read as a long one? As the last one was.
pub(super) fn is_long(message: &Parts) -> bool {
    message.iter().map(bytes::Bytes::len).sum::<usize>() >= LONG
}

async fn serve(requests: InboxSlot<Request>, cx: StartCx) -> Result<(), Fault> {
    let mut requests = requests.open();
    while let Some(Request { mut connection, mut answer }) = requests.next(&cx).await {
        let Connection { reader, writer, .. } = &mut *connection;
        let read = tokio::select! {
            biased;
            () = cx.stop.cancelled() => continue,
            () = answer.closed() => continue,
            read = reader.next_message(writer) => read,
        };
        // A run that has just ended wants it no more.
        let _ = answer.send((connection, read));
    }
    Ok(())
}
