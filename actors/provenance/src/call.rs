//! One call of the client: rows of one method, split by range into messages, each settled by its worker, here or behind a
//! broker.

mod error;

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Mailbox, Outbox, reply};
use tokio::sync::Semaphore;

pub use self::error::CallError;
use crate::{
    edge::amqp::{Call, Outgoing},
    json,
    messages::{DeadLetter, DeadLetterRequest, Refusal, Request, Settled},
    policy::{Range, Routing, Worker, binding_key, deal, exchange, ranges},
    range_worker::RangeWorker,
    row::Rows,
    wire,
};

/// Rows of all calls together that may be on their way to the workers of this process.
const ROWS_MAX: u32 = 200_000;
/// Pause before a worker whose mailbox is full is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// What became of a call's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// How many are stored, repeated ones included.
    pub stored: u64,
    /// The others: positions among the call's rows. Those refused behind a broker are not known here, and no response tells
    /// of them: such a call is not answered in time.
    pub refused: Vec<Refusal>,
}

/// How a client's rows reach the workers.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) routing: Routing,
    /// Rows of a message at the most.
    pub(crate) batch: usize,
    pub(crate) transport: Transport,
}

/// What carries them.
#[derive(Debug)]
pub(crate) enum Transport {
    /// The workers' mailboxes.
    Embedded(Workers),
    /// The publisher.
    Amqp(Outbox<Call>),
}

/// The workers of this process, for calls that need no broker.
#[derive(Debug)]
pub(crate) struct Workers {
    mailboxes: Vec<Mailbox<RangeWorker>>,
    letters: Outbox<DeadLetterRequest>,
    room: Semaphore,
}

impl Workers {
    /// All eighty, in the order of the pool, and who keeps what can never be stored.
    pub(crate) fn new(mailboxes: Vec<Mailbox<RangeWorker>>, letters: Outbox<DeadLetterRequest>) -> Self {
        Self { mailboxes, letters, room: Semaphore::new(ROWS_MAX as usize) }
    }
}

/// One message, and where its rows stand.
#[derive(Debug)]
struct Piece {
    range: Range,
    /// Position of its first row among the rows of its range.
    start: usize,
    rows: Rows,
}

impl Route {
    /// Has rows stored, in messages of at most `batch` rows, if that is not to be as configured.
    pub(crate) async fn add(&self, rows: Rows, batch: Option<usize>) -> Result<Receipt, CallError> {
        let (batch, ranges) = (batch.unwrap_or(self.batch), ranges(&rows, self.routing));
        let parts = deal(rows, &ranges).into_iter();
        let messages = parts.flat_map(|(range, rows)| pieces(range, rows, batch));
        match &self.transport {
            Transport::Embedded(workers) => Ok(workers.add(messages.collect(), &ranges).await),
            Transport::Amqp(calls) => publish(calls, messages.map(outgoing).collect()).await,
        }
    }

    /// Are the workers in this process?
    pub(crate) fn is_embedded(&self) -> bool {
        self.letters().is_some()
    }

    /// Who keeps what the workers of this process can never store; a broker keeps it itself.
    pub(crate) fn letters(&self) -> Option<&Outbox<DeadLetterRequest>> {
        match &self.transport {
            Transport::Embedded(workers) => Some(&workers.letters),
            Transport::Amqp(_) => None,
        }
    }

    /// What to say of a call that was given up.
    pub(crate) fn overdue(&self) -> CallError {
        match self.transport {
            Transport::Embedded(_) => CallError::Unstored,
            Transport::Amqp(_) => CallError::Unacknowledged,
        }
    }
}

impl Workers {
    async fn add(&self, messages: Vec<Piece>, ranges: &[Range]) -> Receipt {
        let room = u32::try_from(ranges.len()).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        // The semaphore is never closed.
        let _room = self.room.acquire_many(room).await;
        let mut under_way: FuturesUnordered<_> = messages
            .into_iter()
            .map(async |Piece { range, start, rows }| {
                let worker = Worker { exchange: exchange(rows.method()), range };
                let settled = deliver(&self.mailboxes[worker.index()], &rows).await;
                self.bury(&rows, &settled.refused).await;
                (range, start, settled)
            })
            .collect();
        let (mut receipt, mut places) = (Receipt::default(), None);
        while let Some((range, start, settled)) = under_way.next().await {
            receipt.stored += u64::from(settled.stored);
            for Refusal { index, reason } in settled.refused {
                let places = places.get_or_insert_with(|| places_of(ranges));
                let index = places[range.index()][start + index as usize];
                receipt.refused.push(Refusal { index, reason });
            }
        }
        // Messages are settled in any order.
        receipt.refused.sort_by_key(|refusal| refusal.index);
        receipt
    }

    /// Has kept what of `rows` can never be stored, before anybody is told.
    async fn bury(&self, rows: &Rows, refused: &[Refusal]) {
        if refused.is_empty() {
            return;
        }
        let letter = |Refusal { index, reason }: &Refusal| {
            let at = *index as usize;
            let lines = json::lines(&rows.part(at..at + 1)).into_iter();
            lines.map(|line| DeadLetter::new(line, reason.clone())).next()
        };
        let letters: Vec<_> = refused.iter().filter_map(letter).collect();
        loop {
            let (reply, kept) = reply();
            // The inbox closes with the process only; a keeper that is restarted drops the reply.
            let sent = self.letters.send(DeadLetterRequest::Keep { letters: letters.clone(), reply }).await;
            if sent.is_err() || kept.await.is_ok() {
                return;
            }
        }
    }
}

/// Where the rows of each range stand among all.
fn places_of(ranges: &[Range]) -> [Vec<u32>; Range::COUNT] {
    let mut places: [Vec<u32>; Range::COUNT] = Default::default();
    for (place, range) in (0..).zip(ranges) {
        places[range.index()].push(place);
    }
    places
}

/// Messages of at most `batch` rows.
fn pieces(range: Range, rows: Rows, batch: usize) -> impl Iterator<Item = Piece> {
    (0..rows.len()).step_by(batch.max(1)).map(move |start| {
        let rows = rows.part(start..rows.len().min(start + batch.max(1)));
        Piece { range, start, rows }
    })
}

/// Has one message settled, however often its worker is restarted.
async fn deliver(worker: &Mailbox<RangeWorker>, rows: &Rows) -> Settled {
    loop {
        let (reply, answer) = reply();
        let request = Request { rows: rows.clone(), reply };
        if worker.tell(request).is_ok() {
            if let Ok(settled) = answer.await {
                return settled;
            }
        } else {
            tokio::time::sleep(FULL_PAUSE).await;
        }
    }
}

fn outgoing(Piece { range, rows, .. }: Piece) -> Outgoing {
    let method = rows.method();
    Outgoing {
        exchange: exchange(method),
        routing_key: binding_key(method, range),
        // A message has at most `batch` rows.
        items: rows.len() as u32,
        body: wire::encode(&rows),
    }
}

async fn publish(calls: &Outbox<Call>, messages: Vec<Outgoing>) -> Result<Receipt, CallError> {
    if messages.is_empty() {
        return Ok(Receipt::default());
    }
    let (reply, answer) = reply();
    let sent = calls.send(Call { messages, reply }).await;
    sent.map_err(|_closed| CallError::Stopping)?;
    let stored = answer.await.unwrap_or(Err(CallError::Stopping))?;
    Ok(Receipt { stored, refused: Vec::new() })
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
