//! One call of the client: rows of one method, split by range into messages, each settled by its worker, here or behind a
//! broker.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::{Mailbox, Outbox};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    edge::amqp::{self, Call, Outgoing},
    messages::{Request, Settled},
    policy::{Range, Routing, Worker, binding_key, exchange, split},
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
    /// Why others are not.
    pub refused: Vec<String>,
}

/// Why nobody can say whether a call's rows are stored. Adding them again changes nothing that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It took too long.
    #[error(
        "the rows were not stored in time: look at the writer in `orchestrator tree`, then add them again"
    )]
    TimedOut,
    /// The broker, or those behind it.
    #[error(transparent)]
    Broker(#[from] amqp::CallError),
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
    room: Semaphore,
}

impl Workers {
    /// All eighty, in the order of the pool.
    pub(crate) fn new(mailboxes: Vec<Mailbox<RangeWorker>>) -> Self {
        Self { mailboxes, room: Semaphore::new(ROWS_MAX as usize) }
    }
}

impl Receipt {
    /// Sums up.
    pub(crate) fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused.extend(other.refused);
    }
}

impl Route {
    /// Has rows stored.
    pub(crate) async fn add(&self, rows: Rows) -> Result<Receipt, CallError> {
        let parts = split(rows, self.routing).into_iter();
        let messages =
            parts.flat_map(|(range, rows)| pieces(rows, self.batch).map(move |rows| (range, rows)));
        match &self.transport {
            Transport::Embedded(workers) => Ok(workers.add(messages.collect()).await),
            Transport::Amqp(calls) => publish(calls, messages.map(outgoing).collect()).await,
        }
    }
}

impl Workers {
    async fn add(&self, messages: Vec<(Range, Rows)>) -> Receipt {
        let rows: usize = messages.iter().map(|(_, rows)| rows.len()).sum();
        let room = u32::try_from(rows).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        // The semaphore is never closed.
        let _room = self.room.acquire_many(room).await;
        let mut under_way: FuturesUnordered<_> = messages
            .into_iter()
            .map(|(range, rows)| {
                let worker = Worker { exchange: exchange(rows.method()), range };
                deliver(&self.mailboxes[worker.index()], rows)
            })
            .collect();
        let mut receipt = Receipt::default();
        while let Some(settled) = under_way.next().await {
            let refused = settled.refused.into_iter().map(|refusal| refusal.reason).collect();
            receipt.add(Receipt { stored: u64::from(settled.stored), refused });
        }
        receipt
    }
}

/// Messages of at most `batch` rows.
fn pieces(rows: Rows, batch: usize) -> impl Iterator<Item = Rows> {
    (0..rows.len()).step_by(batch).map(move |start| rows.part(start..rows.len().min(start + batch)))
}

/// Has one message settled, however often its worker is restarted.
async fn deliver(worker: &Mailbox<RangeWorker>, rows: Rows) -> Settled {
    loop {
        let (reply, answer) = oneshot::channel();
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

fn outgoing((range, rows): (Range, Rows)) -> Outgoing {
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
    let (reply, answer) = oneshot::channel();
    let sent = calls.send(Call { messages, reply }).await;
    sent.map_err(|_closed| amqp::CallError::Stopping)?;
    let stored = answer.await.unwrap_or(Err(amqp::CallError::Stopping))?;
    Ok(Receipt { stored, refused: Vec::new() })
}
