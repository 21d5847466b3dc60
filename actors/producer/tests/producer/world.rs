//! A database and a queue in memory, for the product's rules over more documents, and more accidents, than a server takes in
//! time. Time is tokio's, paused: it passes when nobody has anything to do.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use orchestrator_producer::{
    advance::{Action, Event, Machine, Mark},
    cursor::{Census, Rest},
    id::Id,
    lease::Lease,
    pace::{Pace, Peer, Progress, Stopped},
    pair::Pair,
    perform::{Performer, Settings},
    queue::{Queue, QueueError, Stamp},
    reading::Reading,
    stencil::{Ledger, Misread, Selection, Set, State, Stencil},
    store::{Store, StoreError},
    watermark::WaterMarks,
};
use tokio::time::Instant;

/// What is in the world.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) stencils: BTreeMap<Id, Stencil>,
    pub(crate) unreadable: Vec<Misread>,
    pub(crate) sets: BTreeMap<Set, BTreeSet<Id>>,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) lease: Option<Lease>,
    /// What the queue took, in order.
    pub(crate) pushed: Vec<(Pair, Option<Stamp>)>,
    pub(crate) reading: Reading,
    /// Counts of sets.
    pub(crate) counts: usize,
    /// Seeks for pages.
    pub(crate) seeks: usize,
    /// The longest the queue was.
    pub(crate) longest: u64,
    /// Number of calls so far; what is to happen at which.
    pub(crate) calls: u64,
    pub(crate) faults: BTreeMap<u64, Fault>,
    /// Chunks that were sent although the sender's lease had ended.
    pub(crate) late: u64,
    /// Chunks whose reply was lost, or whose acknowledgement was not noted.
    pub(crate) unsure: u64,
    pub(crate) refusing: bool,
    /// Was only a part of the last chunk taken?
    pub(crate) part: bool,
    pub(crate) started: Option<Instant>,
}

/// An accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call is not carried out.
    Cut,
    /// It is carried out, and the reply is lost.
    LostReply,
    /// The process is killed before the call reaches its peer.
    KillBefore,
    /// The process is killed after it.
    KillAfter,
    /// The queue takes all jobs of the chunk but every third.
    Refuse,
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Pushes a chunk.
    Push,
    /// Notes that a chunk was acknowledged.
    Note,
    Other,
}

impl World {
    pub(crate) fn insert(&mut self, id: Id, tcn: i64, is_good: bool) {
        self.sets.entry(Set::Rootstock { tcn }).or_default().insert(id);
        if is_good {
            self.sets.entry(Set::Scion { tcn }).or_default().insert(id);
        }
    }

    pub(crate) fn stencil(&mut self, stencil: Stencil) {
        self.stencils.insert(stencil.id, stencil);
    }

    /// Workers do everything that waits.
    pub(crate) fn work_off(&mut self) {
        for length in self.reading.queues.values_mut() {
            self.reading.processed += std::mem::take(length);
        }
    }

    /// Jobs that are the same as others.
    pub(crate) fn duplicates(&self) -> usize {
        let distinct: BTreeSet<&Pair> = self.pushed.iter().map(|(pair, _)| pair).collect();
        self.pushed.len() - distinct.len()
    }

    fn now_ms(&mut self) -> i64 {
        self.started.get_or_insert_with(Instant::now).elapsed().as_millis() as i64
    }
}

/// One process's way to the world.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) world: Rc<RefCell<World>>,
    /// Told when the process is killed.
    pub(crate) killed: Rc<tokio::sync::Notify>,
    /// Called at every tick's end; false stops the process.
    pub(crate) on_tick: Rc<dyn Fn(&mut World) -> bool>,
    /// Called before every chunk; the process stands still for so long.
    pub(crate) on_go: Rc<dyn Fn(&mut World) -> Duration>,
    /// The producer's poll, unlike any other wait of it.
    pub(crate) poll: Duration,
    pub(crate) begun: Instant,
}

/// The original's pause between two ticks.
pub(crate) const POLL: Duration = Duration::from_millis(3_000);

impl Process {
    pub(crate) fn new(world: &Rc<RefCell<World>>, on_tick: impl Fn(&mut World) -> bool + 'static) -> Self {
        let (killed, begun) = (Rc::default(), Instant::now());
        let on_go = Rc::new(|_: &mut World| Duration::ZERO);
        Self { world: world.clone(), killed, on_tick: Rc::new(on_tick), on_go, poll: POLL, begun }
    }

    /// Carries a call out, with what is to happen at it. Calls take no time.
    async fn call<T>(&self, call: Call, act: impl FnOnce(&mut World) -> T) -> Result<T, String> {
        let fault = {
            let mut world = self.world.borrow_mut();
            world.calls += 1;
            let calls = world.calls;
            let fault = world.faults.remove(&calls);
            let unsure = match call {
                Call::Push => {
                    let part = std::mem::replace(&mut world.part, fault == Some(Fault::Refuse));
                    matches!(fault, Some(Fault::LostReply | Fault::KillAfter))
                        || (part && fault == Some(Fault::KillBefore))
                }
                Call::Note => fault == Some(Fault::KillBefore),
                Call::Other => false,
            };
            world.unsure += u64::from(unsure);
            world.refusing = fault == Some(Fault::Refuse);
            fault
        };
        if fault == Some(Fault::KillBefore) {
            return self.die().await;
        }
        if fault == Some(Fault::Cut) {
            return Err("the connection was cut".to_owned());
        }
        let answer = act(&mut self.world.borrow_mut());
        match fault {
            Some(Fault::LostReply) => Err("the reply was lost".to_owned()),
            Some(Fault::KillAfter) => self.die().await,
            _ => Ok(answer),
        }
    }

    async fn die<T>(&self) -> T {
        self.killed.notify_one();
        std::future::pending().await
    }
}

fn fenced(world: &World, fence: Option<u64>) -> Result<(), StoreError> {
    let overtaken = fence.is_some_and(|fence| world.lease.as_ref().is_none_or(|lease| lease.epoch != fence));
    if overtaken { Err(StoreError::Fenced) } else { Ok(()) }
}

impl Store for Process {
    async fn ledger(&self) -> Result<Ledger, StoreError> {
        self.call(Call::Other, |world| world.ledger.expect("a ledger")).await.map_err(StoreError::Away)
    }

    async fn list(&self, selection: Selection) -> Result<Vec<Result<Stencil, Misread>>, StoreError> {
        let list = |world: &mut World| {
            let mut found: Vec<Stencil> =
                world.stencils.values().filter(|stencil| selection.takes(stencil)).cloned().collect();
            found.sort_by_key(|stencil| (stencil.tcn, stencil.id));
            let unreadable = world.unreadable.iter().cloned().map(Err);
            unreadable.chain(found.into_iter().map(Ok)).collect()
        };
        self.call(Call::Other, list).await.map_err(StoreError::Away)
    }

    async fn count(&self, selection: Selection) -> Result<u64, StoreError> {
        let count =
            |world: &mut World| world.stencils.values().filter(|stencil| selection.takes(stencil)).count();
        self.call(Call::Other, count).await.map(|count| count as u64).map_err(StoreError::Away)
    }

    async fn census(&self, set: Set) -> Result<Census, StoreError> {
        let census = |world: &mut World| {
            world.counts += 1;
            let tangles = world.sets.get(&set);
            tangles.map_or(Census::default(), |tangles| Census {
                count: tangles.len() as u64,
                greatest: tangles.last().copied(),
            })
        };
        self.call(Call::Other, census).await.map_err(StoreError::Away)
    }

    async fn page(&self, set: Set, from: Option<Id>, skip: u32) -> Result<Option<Id>, StoreError> {
        let page = |world: &mut World| {
            world.seeks += 1;
            let from = from.unwrap_or(Id([0; 12]));
            world.sets.get(&set).and_then(|tangles| tangles.range(from..).nth(skip as usize).copied())
        };
        self.call(Call::Other, page).await.map_err(StoreError::Away)
    }

    async fn mark(&self, mark: &Mark, fence: Option<u64>) -> Result<(), StoreError> {
        let write = |world: &mut World| {
            fenced(world, fence)?;
            let stencil = world.stencils.get_mut(&mark.id).expect("a stencil");
            stencil.state = mark.state;
            stencil.cursor = mark.cursor.or(stencil.cursor);
            Ok(())
        };
        let notes =
            mark.state == State::Started && mark.cursor.is_some_and(|cursor| cursor.rest != Rest::All);
        self.call(if notes { Call::Note } else { Call::Other }, write).await.map_err(StoreError::Away)?
    }

    async fn complete(&self, from: i64, to: i64, fence: Option<u64>) -> Result<(), StoreError> {
        let write = |world: &mut World| {
            fenced(world, fence)?;
            let ledger = world.ledger.as_mut().expect("a ledger");
            assert!(fence.is_none() || [from, to].contains(&ledger.completed_tcn), "{ledger:?} {from} {to}");
            ledger.completed_tcn = to;
            Ok(())
        };
        self.call(Call::Other, write).await.map_err(StoreError::Away)?
    }

    async fn lease(&self) -> Result<(i64, Option<Lease>), StoreError> {
        self.call(Call::Other, |world| (world.now_ms(), world.lease.clone())).await.map_err(StoreError::Away)
    }

    async fn take(&self, seen: Option<&Lease>, lease: &Lease) -> Result<bool, StoreError> {
        let take = |world: &mut World| {
            let same = world.lease.as_ref() == seen;
            if same {
                world.lease = Some(lease.clone());
            }
            same
        };
        self.call(Call::Other, take).await.map_err(StoreError::Away)
    }

    async fn renew(&self, epoch: u64, ttl_ms: u64) -> Result<bool, StoreError> {
        let renew = |world: &mut World| {
            let now_ms = world.now_ms();
            let own = world.lease.as_mut().filter(|lease| lease.epoch == epoch);
            own.map(|lease| lease.until_ms = now_ms + ttl_ms as i64).is_some()
        };
        self.call(Call::Other, renew).await.map_err(StoreError::Away)
    }
}

impl Queue for Process {
    async fn read(&mut self) -> Result<Reading, QueueError> {
        self.call(Call::Other, |world| world.reading.clone()).await.map_err(QueueError::Away)
    }

    async fn push(&mut self, pairs: &[Pair], stamp: Option<Stamp>) -> Result<(), QueueError> {
        let push = |world: &mut World| {
            let now_ms = world.now_ms();
            let ended = world.lease.as_ref().is_some_and(|lease| lease.until_ms < now_ms);
            world.late += u64::from(stamp.is_some() && ended);
            let refused = |at: &usize| world.refusing && at % 3 == 2;
            let positions: Vec<usize> = (0..pairs.len()).filter(refused).collect();
            let taken = pairs.iter().enumerate().filter(|(at, _)| !positions.contains(at));
            world.pushed.extend(taken.map(|(_, pair)| (*pair, stamp)));
            let length = world.reading.queues.entry("arborescent".to_owned()).or_default();
            *length += (pairs.len() - positions.len()) as u64;
            world.longest = world.longest.max(*length);
            positions
        };
        let positions = self.call(Call::Push, push).await.map_err(QueueError::Away)?;
        let reason = "it has no time for more".to_owned();
        if positions.is_empty() { Ok(()) } else { Err(QueueError::NotTaken { positions, reason }) }
    }
}

impl Pace for Process {
    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    async fn timer(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn wait(&self, span: Duration) -> Result<(), Stopped> {
        tokio::time::sleep(span).await;
        let go_on = span != self.poll || (self.on_tick)(&mut self.world.borrow_mut());
        if go_on { Ok(()) } else { Err(Stopped) }
    }

    async fn go(&self) -> Result<(), Stopped> {
        let still = (self.on_go)(&mut self.world.borrow_mut());
        if !still.is_zero() {
            tokio::time::advance(still).await;
        }
        Ok(())
    }

    fn missed(&self, _: Peer, _: String) -> Duration {
        Duration::from_millis(50)
    }

    async fn endure(&self, peer: Peer, reason: String) -> Result<(), Stopped> {
        self.timer(self.missed(peer, reason)).await;
        Ok(())
    }

    fn answered(&self, _: Peer) {}

    fn tell(&self, progress: Progress) {
        assert!(progress.total.is_none_or(|total| progress.pushed <= total), "{progress:?}");
    }

    fn hold(&self, _: bool) {}
}

/// How a process of these tests works.
pub(crate) fn settings(strict: bool, page_size: u32, chunk: usize, holder: &str) -> Settings {
    Settings {
        strict,
        queue: "arborescent".to_owned(),
        page_size,
        chunk,
        marks: WaterMarks { high: 0, low: 0 },
        poll: POLL,
        holder: holder.to_owned(),
        lease: Duration::from_secs(30),
    }
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Killed,
    /// It said that it is done, or cannot go on.
    Said(Action),
}

/// Runs a producer until it ends.
pub(crate) async fn live(machine: Machine, settings: Settings, process: &Process) -> End {
    live_on(machine, settings, process.clone(), process).await
}

/// Runs a producer with another database.
pub(crate) async fn live_on(
    mut machine: Machine,
    settings: Settings,
    store: impl Store,
    process: &Process,
) -> End {
    let settings = Settings { poll: process.poll, ..settings };
    let mut performer = Performer::new(settings, store, process.clone(), process.clone());
    let life = async {
        let mut event = Event::Started;
        loop {
            match machine.on(event) {
                end @ (Action::Finish | Action::Halt(_)) => {
                    performer.leave().await;
                    return End::Said(end);
                }
                action => match performer.perform(action).await {
                    Ok(next) => event = next,
                    Err(Stopped) => return End::Stopped,
                },
            }
        }
    };
    tokio::select! {
        biased;
        () = process.killed.notified() => End::Killed,
        end = life => end,
    }
}
