//! One call of the client: rows of one method, split by range into messages, each settled by its worker.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use orchestrator_supervise::Mailbox;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    messages::{Request, Settled},
    policy::{Routing, Worker, exchange, split},
    range_worker::RangeWorker,
    row::Rows,
};

/// Rows of all calls together that may be on their way.
const ROWS_MAX: u32 = 200_000;
/// Pause before a worker whose mailbox is full is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(5);

/// What became of a call's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    /// How many were sent.
    pub sent: u64,
    /// How many are stored, repeated ones included.
    pub stored: u64,
    /// Why the others are not.
    pub refused: Vec<String>,
}

impl Receipt {
    /// Sums up.
    pub(crate) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.stored += other.stored;
        self.refused.extend(other.refused);
    }
}

/// Why nobody can say whether a call's rows are stored. Adding them again changes nothing that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It took too long.
    #[error(
        "the rows were not stored in time: look at the writer in `orchestrator tree`, then add them again"
    )]
    TimedOut,
}

/// The workers of this process, for calls that need no broker.
#[derive(Debug)]
pub(crate) struct Workers {
    mailboxes: Vec<Mailbox<RangeWorker>>,
    routing: Routing,
    batch: usize,
    room: Semaphore,
}

impl Workers {
    pub(crate) fn new(mailboxes: Vec<Mailbox<RangeWorker>>, routing: Routing, batch: usize) -> Self {
        Self { mailboxes, routing, batch, room: Semaphore::new(ROWS_MAX as usize) }
    }

    /// Has rows stored.
    pub(crate) async fn add(&self, rows: Rows) -> Result<Receipt, CallError> {
        let sent = rows.len() as u64;
        let exchange = exchange(rows.method());
        let room = u32::try_from(rows.len()).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        // The semaphore is never closed.
        let _room = self.room.acquire_many(room).await;
        let messages: FuturesUnordered<_> = split(rows, self.routing)
            .into_iter()
            .flat_map(|(range, rows)| {
                let worker = &self.mailboxes[Worker { exchange, range }.index()];
                pieces(rows, self.batch).map(move |rows| deliver(worker, rows))
            })
            .collect();
        let mut receipt = Receipt { sent, ..Receipt::default() };
        let settled: Vec<Settled> = messages.collect().await;
        for settled in settled {
            receipt.stored += u64::from(settled.stored);
            receipt.refused.extend(settled.refused.into_iter().map(|refusal| refusal.reason));
        }
        Ok(receipt)
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
