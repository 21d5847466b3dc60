//! One call of the client: rows of one method, split into messages by range. A worker of this
//! process or behind the broker settles each message.

mod error;

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{ChildRef, ChildSpec, Mailbox, Outbox, reply};
use tokio::sync::Semaphore;

pub(crate) use self::error::CallError;
use crate::{
    edge::amqp::{Call, Outgoing},
    json,
    messages::{DeadLetter, DeadLetterRequest, Outcome, Refusal, Request},
    policy::{Range, Routing, Worker, binding_key, exchange, ranges, split_by_ranges},
    range_worker::RangeWorker,
    row::Rows,
    wire,
};

/// Maximum number of rows of all calls on their way to the workers of this process.
const ROWS_MAX: u32 = 200_000;
/// Pause before a full mailbox is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// Route of a client's rows to the workers.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) routing: Routing,
    /// Maximum number of rows in a message.
    pub(crate) batch: usize,
    pub(crate) transport: Transport,
}

/// Transport of the messages.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Mailboxes of the workers.
    Embedded(Workers),
    /// Inbox of the publisher.
    Amqp(Outbox<Call>),
}

/// Workers of this process, for the embedded transport.
#[derive(Debug)]
pub(crate) struct Workers {
    mailboxes: Vec<Mailbox<RangeWorker>>,
    pool: ChildRef,
    letters: Outbox<DeadLetterRequest>,
    row_permits: Semaphore,
}

impl Workers {
    /// Takes all 80 mailboxes in the order of `pool`, and the inbox of the dead letter child.
    pub(crate) fn new(
        mailboxes: Vec<Mailbox<RangeWorker>>,
        pool: ChildRef,
        letters: Outbox<DeadLetterRequest>,
    ) -> Self {
        Self { mailboxes, pool, letters, row_permits: Semaphore::new(ROWS_MAX as usize) }
    }
}

impl Transport {
    /// Declares that `child` sends by it, and waits for the answers.
    pub(crate) fn declare(&self, child: ChildSpec) -> ChildSpec {
        match self {
            Self::Embedded(workers) => child.waits_for(&workers.pool).waits_for(&workers.letters),
            Self::Amqp(calls) => child.waits_for(calls),
        }
    }
}

/// Message of one range, with the position of its rows.
#[derive(Debug)]
struct RangeMessage {
    range: Range,
    /// Position of the first row among the rows of the range.
    start: usize,
    rows: Rows,
}

impl Route {
    /// Stores rows, in messages of at most `batch` rows (default: as configured).
    pub(crate) async fn add(&self, rows: Rows, batch: Option<usize>) -> Result<Outcome, CallError> {
        let (batch, ranges) = (batch.unwrap_or(self.batch), ranges(&rows, self.routing));
        let parts = split_by_ranges(rows, &ranges).into_iter();
        let messages = parts.flat_map(|(range, rows)| split_messages(range, rows, batch));
        match &self.transport {
            Transport::Embedded(workers) => Ok(workers.add(messages.collect(), &ranges).await),
            Transport::Amqp(calls) => publish(calls, messages.map(outgoing).collect()).await,
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.letters().is_some()
    }

    /// None with a broker, which has a queue for dead letters.
    pub(crate) fn letters(&self) -> Option<&Outbox<DeadLetterRequest>> {
        match &self.transport {
            Transport::Embedded(workers) => Some(&workers.letters),
            Transport::Amqp(_) => None,
        }
    }

    pub(crate) fn timeout_error(&self) -> CallError {
        match self.transport {
            Transport::Embedded(_) => CallError::Unstored,
            Transport::Amqp(_) => CallError::Unacknowledged,
        }
    }
}

impl Workers {
    async fn add(&self, messages: Vec<RangeMessage>, ranges: &[Range]) -> Outcome {
        let row_permits = u32::try_from(ranges.len()).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        // The semaphore is never closed.
        let _permits = self.row_permits.acquire_many(row_permits).await;
        let mut under_way: FuturesUnordered<_> = messages
            .into_iter()
            .map(async |RangeMessage { range, start, rows }| {
                let worker = Worker { exchange: exchange(rows.method()), range };
                let settled = deliver(&self.mailboxes[worker.index()], &rows).await;
                self.store_dead_letters(&rows, &settled.refused).await;
                (range, start, settled)
            })
            .collect();
        let (mut outcome, mut positions) = (Outcome::default(), None);
        while let Some((range, start, settled)) = under_way.next().await {
            outcome.stored += settled.stored;
            for Refusal { index, reason } in settled.refused {
                let positions = positions.get_or_insert_with(|| positions_by_range(ranges));
                let index = positions[range.index()][start + index as usize];
                outcome.refused.push(Refusal { index, reason });
            }
        }
        // Messages settle in any order.
        Refusal::sort(&mut outcome.refused);
        outcome
    }

    /// Stores the refused rows as dead letters before the caller is answered (CONTRACT PS07).
    async fn store_dead_letters(&self, rows: &Rows, refused: &[Refusal]) {
        if refused.is_empty() {
            return;
        }
        let letter = |Refusal { index, reason }: &Refusal| {
            let at = *index as usize;
            let import_lines = json::import_lines(&rows.part(at..at + 1)).into_iter();
            import_lines.map(|line| DeadLetter::new(line, reason.clone())).next()
        };
        let letters: Vec<_> = refused.iter().filter_map(letter).collect();
        loop {
            let (reply, kept) = reply();
            // The inbox closes only with the process; a child that is restarted drops the reply.
            let sent = self.letters.send(DeadLetterRequest::Keep { letters: letters.clone(), reply }).await;
            if sent.is_err() || kept.await.is_ok() {
                return;
            }
        }
    }
}

/// Positions of each range's rows in the call.
fn positions_by_range(ranges: &[Range]) -> [Vec<u32>; Range::COUNT] {
    let mut positions: [Vec<u32>; Range::COUNT] = Default::default();
    for (position, range) in (0..).zip(ranges) {
        positions[range.index()].push(position);
    }
    positions
}

/// Splits the rows of a range into messages of at most `batch` rows.
fn split_messages(range: Range, rows: Rows, batch: usize) -> impl Iterator<Item = RangeMessage> {
    (0..rows.len()).step_by(batch.max(1)).map(move |start| {
        let rows = rows.part(start..rows.len().min(start + batch.max(1)));
        RangeMessage { range, start, rows }
    })
}

/// Delivers one message until it is settled, also over restarts of its worker.
async fn deliver(worker: &Mailbox<RangeWorker>, rows: &Rows) -> Outcome {
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

fn outgoing(RangeMessage { range, rows, .. }: RangeMessage) -> Outgoing {
    let method = rows.method();
    Outgoing {
        exchange: exchange(method),
        routing_key: binding_key(method, range),
        // A message has at most `batch` rows.
        items: rows.len() as u32,
        body: wire::encode(&rows),
    }
}

async fn publish(calls: &Outbox<Call>, messages: Vec<Outgoing>) -> Result<Outcome, CallError> {
    if messages.is_empty() {
        return Ok(Outcome::default());
    }
    let (reply, answer) = reply();
    let sent = calls.send(Call { messages, reply }).await;
    sent.map_err(|_closed| CallError::Stopping)?;
    let stored = answer.await.unwrap_or(Err(CallError::Stopping))?;
    Ok(Outcome { stored, refused: Vec::new() })
}

#[cfg(all(test, feature = "sqlite"))]
mod tests;
