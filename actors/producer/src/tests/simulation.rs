//! In-memory database and queue with injected faults, for more documents and faults than a real server
//! handles in time. Time is tokio's paused clock, which advances when all tasks wait.

mod environment;
mod run;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use orchestrator_edge::PeerError;
use tokio::time::Instant;

pub(crate) use self::run::{End, run, run_delivering, settings};

use orchestrator_producer_rules::{
    advance::StencilUpdate,
    cursor::{Remaining, SetSummary},
    id::Id,
    lease::Lease,
    pair::Pair,
    queue_state::QueueState,
    stencil::{ConfigDocument, InvalidDocument, Selection, Set, State, Stencil},
};

use crate::{
    completion::{Completion, CompletionId, CompletionState, TcnStart},
    queue::{JidSeed, Queue, Unacknowledged},
    store::{Store, StoreError},
};

/// State of database and queue.
#[derive(Debug, Default)]
pub(crate) struct Simulation {
    pub(crate) stencils: BTreeMap<Id, Stencil>,
    pub(crate) unreadable: Vec<InvalidDocument>,
    pub(crate) sets: BTreeMap<Set, BTreeSet<Id>>,
    pub(crate) config: Option<ConfigDocument>,
    pub(crate) lease: Option<Lease>,
    pub(crate) completions: CompletionState,
    /// Jobs that the queue accepted, in order.
    pub(crate) pushed: Vec<(Pair, Option<JidSeed>)>,
    pub(crate) queue_state: QueueState,
    /// Number of set summaries read.
    pub(crate) counts: usize,
    /// Number of pages read.
    pub(crate) seeks: usize,
    /// Greatest length of the queue.
    pub(crate) longest: u64,
    /// Number of calls so far, and the faults by call number.
    pub(crate) calls: u64,
    pub(crate) faults: BTreeMap<u64, Fault>,
    /// Chunks pushed after the sender's lease had ended.
    pub(crate) pushed_without_lease: u64,
    /// Chunks whose reply was lost, or whose cursor was not written.
    pub(crate) ambiguous: u64,
    pub(crate) refusing: bool,
    /// True if only a part of the last chunk was accepted.
    pub(crate) part: bool,
    pub(crate) started: Option<Instant>,
    /// Time for which the next chunk waits for a connection.
    pub(crate) push_waits: Duration,
    /// End of an outage of all reads and writes.
    pub(crate) away_until: Option<Instant>,
    /// True while pushing is reported to be stopped by the high mark.
    pub(crate) held: bool,
}

/// Fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call is not executed and fails.
    Cut,
    /// The call is executed and its reply is lost.
    LostReply,
    /// The process is killed before the call is executed.
    KillBefore,
    /// The process is killed after the call is executed.
    KillAfter,
    /// The queue refuses every third job of the chunk.
    Refuse,
}

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Push of a chunk.
    Push,
    /// Write of a cursor after an acknowledged chunk.
    RecordCursor,
    Other,
}

impl Simulation {
    pub(crate) fn insert(&mut self, id: Id, tcn: i64, is_good: bool) {
        self.sets.entry(Set::Rootstock { tcn }).or_default().insert(id);
        if is_good {
            self.sets.entry(Set::Scion { tcn }).or_default().insert(id);
        }
    }

    pub(crate) fn stencil(&mut self, stencil: Stencil) {
        self.stencils.insert(stencil.id, stencil);
    }

    /// Completes all waiting jobs.
    pub(crate) fn complete_jobs(&mut self) {
        for length in self.queue_state.queues.values_mut() {
            self.queue_state.processed += std::mem::take(length);
        }
    }

    /// Jobs that repeat others.
    pub(crate) fn duplicates(&self) -> usize {
        let distinct: BTreeSet<&Pair> = self.pushed.iter().map(|(pair, _)| pair).collect();
        self.pushed.len() - distinct.len()
    }

    fn now_ms(&mut self) -> i64 {
        self.started.get_or_insert_with(Instant::now).elapsed().as_millis() as i64
    }
}

/// Connection of one process to the simulation.
#[derive(Clone)]
pub(crate) struct SimulatedProcess {
    pub(crate) simulation: Rc<RefCell<Simulation>>,
    /// Notified when the process is killed.
    pub(crate) killed: Rc<tokio::sync::Notify>,
    /// Called at the end of every tick; false stops the process.
    pub(crate) on_tick: Rc<dyn Fn(&mut Simulation) -> bool>,
    /// Called before every chunk; returns the time for which the process is suspended.
    pub(crate) before_chunk: Rc<dyn Fn(&mut Simulation) -> Duration>,
    /// Interval between ticks, different from all other delays.
    pub(crate) poll: Duration,
    pub(crate) started_at: Instant,
}

/// Interval of the original.
pub(crate) const POLL: Duration = Duration::from_millis(3_000);

impl SimulatedProcess {
    pub(crate) fn new(
        simulation: &Rc<RefCell<Simulation>>,
        on_tick: impl Fn(&mut Simulation) -> bool + 'static,
    ) -> Self {
        let (killed, started_at) = (Rc::default(), Instant::now());
        let before_chunk = Rc::new(|_: &mut Simulation| Duration::ZERO);
        Self {
            simulation: simulation.clone(),
            killed,
            on_tick: Rc::new(on_tick),
            before_chunk,
            poll: POLL,
            started_at,
        }
    }

    /// Executes a call with the fault that is due. Calls take no time.
    async fn call<T>(&self, call: Call, act: impl FnOnce(&mut Simulation) -> T) -> Result<T, String> {
        let fault = {
            let mut simulation = self.simulation.borrow_mut();
            if call != Call::Push && simulation.away_until.is_some_and(|until| Instant::now() < until) {
                return Err("it is unavailable".to_owned());
            }
            simulation.calls += 1;
            let calls = simulation.calls;
            let fault = simulation.faults.remove(&calls);
            let ambiguous = match call {
                Call::Push => {
                    let part = std::mem::replace(&mut simulation.part, fault == Some(Fault::Refuse));
                    matches!(fault, Some(Fault::LostReply | Fault::KillAfter))
                        || (part && fault == Some(Fault::KillBefore))
                }
                Call::RecordCursor => fault == Some(Fault::KillBefore),
                Call::Other => false,
            };
            simulation.ambiguous += u64::from(ambiguous);
            simulation.refusing = fault == Some(Fault::Refuse);
            fault
        };
        if fault == Some(Fault::KillBefore) {
            return self.kill().await;
        }
        if fault == Some(Fault::Cut) {
            return Err("the connection was cut".to_owned());
        }
        let answer = act(&mut self.simulation.borrow_mut());
        match fault {
            Some(Fault::LostReply) => Err("the reply was lost".to_owned()),
            Some(Fault::KillAfter) => self.kill().await,
            _ => Ok(answer),
        }
    }

    async fn kill<T>(&self) -> T {
        self.killed.notify_one();
        std::future::pending().await
    }
}

fn fenced(simulation: &Simulation, fence: Option<u64>) -> Result<(), StoreError> {
    let overtaken =
        fence.is_some_and(|fence| simulation.lease.as_ref().is_none_or(|lease| lease.epoch != fence));
    if overtaken { Err(StoreError::Fenced) } else { Ok(()) }
}

impl Store for SimulatedProcess {
    async fn config_document(&self) -> Result<ConfigDocument, StoreError> {
        self.call(Call::Other, |simulation| simulation.config.expect("a ledger"))
            .await
            .map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn list(&self, selection: Selection) -> Result<Vec<Result<Stencil, InvalidDocument>>, StoreError> {
        let list = |simulation: &mut Simulation| {
            let mut found: Vec<Stencil> =
                simulation.stencils.values().filter(|stencil| selection.selects(stencil)).cloned().collect();
            found.sort_by_key(|stencil| (stencil.tcn, stencil.id));
            let unreadable = simulation.unreadable.iter().cloned().map(Err);
            unreadable.chain(found.into_iter().map(Ok)).collect()
        };
        self.call(Call::Other, list).await.map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn count(&self, selection: Selection) -> Result<u64, StoreError> {
        let count = |simulation: &mut Simulation| {
            simulation.stencils.values().filter(|stencil| selection.selects(stencil)).count()
        };
        self.call(Call::Other, count)
            .await
            .map(|count| count as u64)
            .map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn set_summary(&self, set: Set) -> Result<SetSummary, StoreError> {
        let summary = |simulation: &mut Simulation| {
            simulation.counts += 1;
            let tangles = simulation.sets.get(&set);
            tangles.map_or(SetSummary::default(), |tangles| SetSummary {
                count: tangles.len() as u64,
                greatest: tangles.last().copied(),
            })
        };
        self.call(Call::Other, summary).await.map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn page(&self, set: Set, from: Option<Id>, skip: u32) -> Result<Option<Id>, StoreError> {
        let page = |simulation: &mut Simulation| {
            simulation.seeks += 1;
            let from = from.unwrap_or(Id([0; 12]));
            simulation.sets.get(&set).and_then(|tangles| tangles.range(from..).nth(skip as usize).copied())
        };
        self.call(Call::Other, page).await.map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn update_stencil(&self, update: &StencilUpdate, fence: Option<u64>) -> Result<(), StoreError> {
        let write = |simulation: &mut Simulation| {
            fenced(simulation, fence)?;
            let stencil = simulation.stencils.get_mut(&update.id).expect("a stencil");
            stencil.state = update.state;
            stencil.cursor = update.cursor.or(stencil.cursor);
            Ok(())
        };
        let notes = update.state == State::Started
            && update.cursor.is_some_and(|cursor| cursor.remaining != Remaining::All);
        self.call(if notes { Call::RecordCursor } else { Call::Other }, write)
            .await
            .map_err(|text| StoreError::Unavailable(text.into()))?
    }

    async fn complete(
        &self,
        from: i64,
        to: i64,
        completion: Option<&Completion>,
        fence: Option<u64>,
    ) -> Result<(), StoreError> {
        let write = |simulation: &mut Simulation| {
            fenced(simulation, fence)?;
            let config = simulation.config.as_mut().expect("a ledger");
            assert!(fence.is_none() || [from, to].contains(&config.completed_tcn), "{config:?} {from} {to}");
            config.completed_tcn = to;
            let undelivered = &mut simulation.completions.undelivered;
            undelivered.retain(|other| completion.is_none_or(|completion| completion.id != other.id));
            undelivered.extend(completion);
            Ok(())
        };
        self.call(Call::Other, write).await.map_err(|text| StoreError::Unavailable(text.into()))?
    }

    async fn completion_state(&self) -> Result<CompletionState, StoreError> {
        let read = |simulation: &mut Simulation| simulation.completions.clone();
        self.call(Call::Other, read).await.map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn start_tcn(&self, start: TcnStart, fence: Option<u64>) -> Result<(), StoreError> {
        let write = |simulation: &mut Simulation| {
            fenced(simulation, fence)?;
            simulation.completions.started = Some(start);
            Ok(())
        };
        self.call(Call::Other, write).await.map_err(|text| StoreError::Unavailable(text.into()))?
    }

    async fn remove_completion(&self, id: CompletionId, fence: Option<u64>) -> Result<(), StoreError> {
        let write = |simulation: &mut Simulation| {
            fenced(simulation, fence)?;
            simulation.completions.undelivered.retain(|completion| completion.id != id);
            Ok(())
        };
        self.call(Call::Other, write).await.map_err(|text| StoreError::Unavailable(text.into()))?
    }

    async fn lease(&self) -> Result<(i64, Option<Lease>), StoreError> {
        self.call(Call::Other, |simulation| (simulation.now_ms(), simulation.lease.clone()))
            .await
            .map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn take(&self, seen: Option<&Lease>, lease: &Lease) -> Result<bool, StoreError> {
        let take = |simulation: &mut Simulation| {
            let same = simulation.lease.as_ref() == seen;
            if same {
                simulation.lease = Some(lease.clone());
            }
            same
        };
        self.call(Call::Other, take).await.map_err(|text| StoreError::Unavailable(text.into()))
    }

    async fn renew(&self, epoch: u64, ttl_ms: u64) -> Result<bool, StoreError> {
        let renew = |simulation: &mut Simulation| {
            let now_ms = simulation.now_ms();
            let own = simulation.lease.as_mut().filter(|lease| lease.epoch == epoch);
            own.map(|lease| lease.until_ms = now_ms + ttl_ms as i64).is_some()
        };
        self.call(Call::Other, renew).await.map_err(|text| StoreError::Unavailable(text.into()))
    }
}

impl Queue for SimulatedProcess {
    async fn read(&mut self) -> Result<QueueState, PeerError> {
        self.call(Call::Other, |simulation| simulation.queue_state.clone()).await.map_err(PeerError::lost)
    }

    async fn push(&mut self, pairs: &[Pair], jid_seed: Option<JidSeed>) -> Result<(), Unacknowledged> {
        let waits = std::mem::take(&mut self.simulation.borrow_mut().push_waits);
        if !waits.is_zero() {
            tokio::time::sleep(waits).await;
        }
        let push = |simulation: &mut Simulation| {
            let now_ms = simulation.now_ms();
            let ended = simulation.lease.as_ref().is_some_and(|lease| lease.until_ms < now_ms);
            simulation.pushed_without_lease += u64::from(jid_seed.is_some() && ended);
            let refused = |at: &usize| simulation.refusing && at % 3 == 2;
            let positions: Vec<usize> = (0..pairs.len()).filter(refused).collect();
            let taken = pairs.iter().enumerate().filter(|(at, _)| !positions.contains(at));
            simulation.pushed.extend(taken.map(|(_, pair)| (*pair, jid_seed)));
            let length = simulation.queue_state.queues.entry("arborescent".to_owned()).or_default();
            *length += (pairs.len() - positions.len()) as u64;
            simulation.longest = simulation.longest.max(*length);
            positions
        };
        let all = |reason| Unacknowledged { positions: (0..pairs.len()).collect(), reason };
        let positions = self.call(Call::Push, push).await.map_err(all)?;
        let reason = "it has no time for more".to_owned();
        if positions.is_empty() { Ok(()) } else { Err(Unacknowledged { positions, reason }) }
    }
}
