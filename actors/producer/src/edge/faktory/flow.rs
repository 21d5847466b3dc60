//! The way to the connections: what waits for each is bounded in bytes.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    task::{Context, Poll},
    time::Duration,
};

use orchestrator_supervise::{AskError, ChildSpec, Outbox, Shutdown, Tree, inbox, reply};
use tokio::sync::Semaphore;

use super::{
    error::{FaktoryError, PushError, Pushed},
    lane::{self, Parcel, Question, Slots},
    server::{Patience, Server},
};
use crate::{batch::Batch, reading::Reading};

/// Batches that may wait for a connection, however small they are.
const BATCHES: usize = 1_024;
/// Questions that may wait: one at a time is asked, and a few by operators.
const QUESTIONS: usize = 16;

/// The id of the connections' pool.
pub const POOL: &str = "faktory";

/// How batches flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Connections, 1 to 4.
    pub connections: usize,
    /// Bytes of batches that wait for one connection or are on their way over it, at the most; a single batch may have more.
    pub bytes: usize,
}

impl Default for Flow {
    fn default() -> Self {
        Self { connections: 1, bytes: 4 * Batch::BYTES_MAX }
    }
}

/// The way to a server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Faktory {
    lanes: Arc<[Way]>,
    patience: Duration,
}

#[derive(Debug)]
struct Way {
    parcels: Outbox<Parcel>,
    questions: Outbox<Question>,
    room: Arc<Semaphore>,
    bytes: u32,
}

/// The outcome of a batch, once it is known.
#[derive(Debug)]
pub struct Pending {
    outcome: Option<orchestrator_supervise::Pending<Result<Pushed, PushError>>>,
    claimed: Arc<AtomicBool>,
}

/// The connections to `server`, a pool of children, and the way to them.
pub fn child_spec(server: Server, flow: Flow) -> (Faktory, ChildSpec) {
    let Patience { connect, handshake, reply, .. } = server.patience;
    // A question may find a batch on its way and a connection to be made; what is beyond that is no answer.
    let patience = connect + handshake + reply * 3;
    let (ways, slots): (Vec<Way>, Vec<Slots>) = (0..flow.connections.clamp(1, 4)).map(|_| way(flow)).unzip();
    let count = slots.len();
    let connection = move |index: usize| lane::factory(server.clone(), &slots[index]);
    // A reply is waited for at a stop, too: what is given up then would be pushed twice.
    let drain = Shutdown::After(reply + Duration::from_secs(1));
    let pool = ChildSpec::pool(POOL, count, connection).shutdown(drain);
    (Faktory { lanes: ways.into(), patience }, pool)
}

fn way(flow: Flow) -> (Way, Slots) {
    let (parcels, parcels_slot) = inbox(BATCHES);
    let (questions, questions_slot) = inbox(QUESTIONS);
    let bytes = u32::try_from(flow.bytes).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(bytes as usize));
    (Way { parcels, questions, room, bytes }, Slots { parcels: parcels_slot, questions: questions_slot })
}

/// Reason of the first connection that is down, of the pool at `path` in the tree; None while none is.
pub fn outage(tree: &Tree, path: &str) -> Option<String> {
    let links = tree.node(path)?.children.into_iter().filter_map(|connection| connection.link);
    links.filter(|link| link.state == "down").find_map(|link| link.reason)
}

impl Faktory {
    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.lanes.len()
    }

    /// Hands `batch` to a connection (counted from 0, and on from the first after the last), once there is room for it. Batches of
    /// one connection are pushed, and their outcomes known, in the order of these calls; while the server is away they wait. A
    /// batch whose [`Pending`] is dropped before its turn is not sent.
    pub async fn submit(&self, connection: usize, batch: Batch) -> Pending {
        let way = &self.lanes[connection % self.lanes.len()];
        let (tell, outcome) = reply();
        let claimed = Arc::new(AtomicBool::new(false));
        let pending = Pending { outcome: Some(outcome), claimed: claimed.clone() };
        let size = u32::try_from(batch.bytes()).unwrap_or(u32::MAX).min(way.bytes);
        let Some(command) = batch.into_command() else {
            // Nobody is there who would not hear it.
            let _ = tell.send(Ok(Pushed::default()));
            return pending;
        };
        // Neither fails before the process ends.
        if let Ok(room) = way.room.clone().acquire_many_owned(size).await {
            let parcel = Parcel { command, outcome: tell, claimed, _room: room };
            if way.parcels.send(parcel).await.is_ok() {
                return pending;
            }
        }
        Pending { outcome: None, ..pending }
    }

    /// Pushes `batch` over a connection; as [`Faktory::submit`].
    ///
    /// # Errors
    /// [`PushError`]: whether the jobs may be pushed again as they are depends on the kind.
    pub async fn push(&self, connection: usize, batch: Batch) -> Result<Pushed, PushError> {
        self.submit(connection, batch).await.await
    }

    /// What is in the server's queues and sets, asked over the first connection, after the batch that is on its way there.
    ///
    /// # Errors
    /// [`FaktoryError`]; also at once while the server is away.
    pub async fn info(&self) -> Result<Reading, FaktoryError> {
        let lost = |text: String| Err(FaktoryError::Lost(text));
        match self.lanes[0].questions.ask(|reply| reply, self.patience).await {
            Ok(info) => info,
            Err(AskError::Full(_)) => lost("too many questions wait for an answer".to_owned()),
            Err(AskError::Lost) => lost("the connection's child ended before the answer".to_owned()),
            Err(AskError::TimedOut(patience)) => lost(format!("no answer within {patience:?}")),
        }
    }
}

impl Pending {
    /// Takes the batch back if nothing of it was sent yet; tells whether it did. If it did not, the outcome comes.
    pub fn withdraw(&self) -> bool {
        !self.claimed.swap(true, AcqRel)
    }
}

impl Future for Pending {
    type Output = Result<Pushed, PushError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &mut self.outcome else {
            return Poll::Ready(Err(PushError::NotSent("the process ends".to_owned())));
        };
        Pin::new(outcome).poll(cx).map(|outcome| {
            // The child that had it is gone, and what it knew.
            outcome.unwrap_or_else(|_| {
                Err(PushError::Ambiguous("the connection's child ended before the reply".to_owned()))
            })
        })
    }
}
