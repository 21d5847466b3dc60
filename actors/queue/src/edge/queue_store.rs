//! QueueStore, the thread that owns the database: opens it, takes what waits in its inboxes, and commits it in groups.
//!
//! It is a thread and not an actor because a commit waits for the disk: a sync of 854 ms was measured. An actor in such a poll can
//! be neither paused nor stopped; a thread is shown as stuck, and no second one is started beside it. And a turn takes all requests
//! that wait into one transaction, where a handler sees one message at a time.
//!
//! A database that is locked, full or away is a state of its link, never a crash: requests wait, nothing is answered
//! uncommitted. A damaged one is set aside and rebuilt from the fetcher files by the restart of everything behind it. One whose
//! files were deleted or replaced is given up, and opened anew by a planned restart, which costs no restart budget.

mod ending;
mod stopped;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::Reconnect;
use orchestrator_supervise::{
    Backoff, DurableView, Fault, Inbox, InboxSlot, Outbox, StartCx, StopToken, block_on,
};

use self::stopped::{End, Stopped, start_anew};
use crate::{
    config::{OnCorrupt, QueueConfig},
    edge::{
        housekeeper::LogCare,
        sqlite::{CheckpointMode, Checkpointer, SqliteStore, release_replaced, set_aside},
        unix_time::unix_time,
    },
    group_commit::GroupCommit,
    messages::{Chore, IngestOp, StoreRequest},
    storage::StorageError,
    store_metrics::StoreMetrics,
};

/// Requests that share one transaction at the most.
const MAX_GROUP: usize = 512;
/// Waits before a storage that refuses is tried again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(500) };
/// Refusals in a row that are no outage yet: another process's short transaction.
const PATIENCE: u32 = 3;
/// How long delivery notices wait for a group to travel with.
const NOTICE_WAIT: Duration = Duration::from_millis(100);
/// Interval in which the paths of the database's files are compared with the files that are open.
const CHECK_FILES: Duration = Duration::from_secs(1);
/// How long nothing must happen before the database is left as a whole file.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Pages by which the write-ahead log grows before the housekeeper moves them (32 MiB). Fewer cost a tenth of the ingest
/// rate, more make no difference (measured).
const CHECKPOINT_PAGES: u64 = 8_192;
/// Pages to the next try where the log could not begin anew: somebody read it, or the disk refused.
const RETRY_PAGES: u64 = 1_024;

/// Shortest pause in favour of other processes that write.
const SHORTEST_ROOM: Duration = Duration::from_millis(1);

/// The child: inboxes and settings that every incarnation of the thread works with.
pub(crate) struct QueueStore {
    pub(crate) config: QueueConfig,
    pub(crate) requests: InboxSlot<StoreRequest>,
    pub(crate) ingest: InboxSlot<IngestOp>,
    pub(crate) chores: Outbox<Chore>,
    pub(crate) log: Arc<LogCare>,
    /// Operators stopped the hand-outs.
    pub(crate) paused: DurableView<bool>,
}

/// One incarnation at work.
struct Incarnation<'a> {
    spec: &'a QueueStore,
    cx: &'a StartCx,
    tries: Reconnect,
    metrics: StoreMetrics,
    store: SqliteStore,
    wal_pages: Arc<AtomicU64>,
    group: GroupCommit,
    requests: Inbox<StoreRequest>,
    ingest: Inbox<IngestOp>,
    /// Pages in the log from which on the housekeeper is asked to move them.
    checkpoint_at: u64,
    idle: bool,
    /// When the paths of the files are looked at next.
    check_files_at: Instant,
    /// Owed to other processes that write.
    room: Duration,
}

impl QueueStore {
    /// One incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let requests = self.requests.open();
        let ingest = self.ingest.open();
        // Nobody has a connection now.
        self.log.set_files(None);
        release_replaced(&self.config.database);
        let link = cx.vitals.link("sqlite", self.config.database.display().to_string());
        let mut tries = Reconnect::new(link, RETRY).report_after_failures(PATIENCE);
        let Some(store) = self.open(cx, &mut tries)? else {
            return Ok(());
        };
        self.log.set_files(Some(store.files().clone()));
        let incarnation = Incarnation {
            spec: self,
            metrics: StoreMetrics::register(&cx.vitals),
            wal_pages: store.wal_pages(),
            cx,
            tries,
            store,
            group: GroupCommit::new(),
            requests,
            ingest,
            checkpoint_at: CHECKPOINT_PAGES,
            idle: false,
            check_files_at: Instant::now() + CHECK_FILES,
            room: Duration::ZERO,
        };
        match incarnation.work()? {
            End::Asked => Ok(()),
            // The connections and the inboxes are closed: who waits for an answer hears now that none comes.
            End::Replaced(replaced) => start_anew(cx, &replaced),
        }
    }

    /// Opens the database, waiting as long as it takes; None when asked to stop meanwhile.
    fn open(&self, cx: &StartCx, tries: &mut Reconnect) -> Result<Option<SqliteStore>, Fault> {
        loop {
            match SqliteStore::open(&self.config.database, self.config.store_options()) {
                Ok(store) => {
                    tries.connected();
                    return Ok(Some(store));
                }
                Err(error @ StorageError::Corrupt { .. }) => self.set_aside(&error)?,
                Err(error) if error.is_retryable() => {
                    if pause(&cx.stop, tries.failed(Fault::from_error(&error).to_string())) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(Fault::from_error(&error)),
            }
        }
    }

    /// Keeps a damaged database for whoever wants to look into it.
    fn set_aside(&self, damage: &StorageError) -> Result<(), Fault> {
        if self.config.on_corrupt == OnCorrupt::Refuse {
            return Err(Fault::new(format!("{damage}; queue.on_corrupt is \"refuse\"")));
        }
        let kept =
            set_aside(&self.config.database, unix_time()).map_err(|error| Fault::from_error(&error))?;
        tracing::error!(%damage, ?kept, "damaged database set aside, rebuilding from the fetcher files");
        Ok(())
    }
}

impl Incarnation<'_> {
    fn work(mut self) -> Result<End, Fault> {
        while let Some(request) = self.requests.try_recv() {
            self.group.add_request(request);
        }
        let stopped = match self.recover() {
            Ok(()) => self.serve(),
            stopped => stopped,
        };
        match stopped {
            Ok(()) | Err(Stopped::Asked) => self.close(),
            Err(Stopped::Replaced(replaced)) => return self.give_up(replaced),
            Err(Stopped::Failed(fault)) => return Err(fault),
        }
        Ok(End::Asked)
    }

    /// Turn after turn, until asked to stop.
    fn serve(&mut self) -> Result<(), Stopped> {
        while self.wait_for_work()? {
            let _in_hand = self.cx.vitals.begin_work("group");
            if self.spec.log.rest_due.load(Relaxed) && !self.group.serves_next(true) {
                self.take_rest();
                continue;
            }
            let paused = self.spec.paused.get();
            let begun = Instant::now();
            match self.group.turn(&mut self.store, paused, &self.metrics, unix_time) {
                Ok(()) => {
                    self.tries.succeeded();
                    self.watch_log();
                    self.leave_room(begun.elapsed());
                }
                Err(error) => self.endure(&error)?,
            }
        }
        Ok(())
    }

    /// Takes back what a former incarnation handed out and nobody received.
    fn recover(&mut self) -> Result<(), Stopped> {
        loop {
            match self.group.recover(&mut self.store) {
                Ok(undone) => {
                    if undone > 0 {
                        tracing::warn!(undone, "jobs whose replies were not delivered are back in the queue");
                        self.metrics.undone.add(undone as u64);
                    }
                    return Ok(());
                }
                Err(error) => self.endure(&error)?,
            }
        }
    }

    /// Lives with a storage that refuses: waits before the next try.
    fn endure(&mut self, error: &StorageError) -> Result<(), Stopped> {
        if let StorageError::Replaced { replaced } = error {
            return Err(Stopped::Replaced(replaced.clone()));
        }
        // A file that another took the place of looks damaged, too; nothing at its path is to be set aside then.
        self.store.files().check()?;
        if matches!(error, StorageError::Corrupt { .. }) {
            // Everything behind this child is restarted with it and reads the files again.
            self.spec.set_aside(error)?;
        } else if error.is_retryable() {
            self.metrics.retries.add(1);
            if matches!(error, StorageError::Full { .. }) {
                // On a small disk it may be the log that fills it: once its pages are moved it is used from its start.
                let _ = self.store.checkpoint_rest();
            }
            let delay = self.tries.failed(Fault::from_error(error).to_string());
            return if pause(&self.cx.stop, delay) { Err(Stopped::Asked) } else { Ok(()) };
        }
        Err(Fault::from_error(error).into())
    }

    /// Takes what waits, as far as there is room.
    fn gather(&mut self) {
        while self.group.is_reconciled() && self.group.waiting() < MAX_GROUP {
            let Some(request) = self.requests.try_recv() else {
                break;
            };
            self.group.add_request(request);
        }
        if self.group.takes_ingest()
            && let Some(op) = self.ingest.try_recv()
        {
            self.group.add_ingest(op);
        }
    }

    /// Blocks until there is something to do; false when asked to stop and nothing is left.
    fn wait_for_work(&mut self) -> Result<bool, Stopped> {
        let mut quiet_since = Instant::now();
        loop {
            self.check_files()?;
            self.gather();
            if self.group.has_work() {
                self.idle = false;
                return Ok(true);
            }
            let notices = self.group.has_notices();
            let wait = if notices { NOTICE_WAIT } else { IDLE_AFTER };
            let due = if notices || !self.idle { quiet_since + wait } else { self.check_files_at };
            let (requests, ingest) = (&mut self.requests, &mut self.ingest);
            let (reconciled, takes_ingest) = (self.group.is_reconciled(), self.group.takes_ingest());
            let came = block_on(Some(due.min(self.check_files_at)), async {
                tokio::select! {
                    biased;
                    Some(request) = requests.recv(), if reconciled => Came::Request(request),
                    Some(op) = ingest.recv(), if takes_ingest => Came::Ingest(op),
                    () = self.cx.stop.cancelled() => Came::Stop,
                }
            });
            match came {
                Some(Came::Request(request)) => {
                    self.group.add_request(request);
                    quiet_since = Instant::now();
                }
                Some(Came::Ingest(op)) => self.group.add_ingest(op),
                // The last notices go with a last turn of their own.
                Some(Came::Stop) => return Ok(notices),
                None if Instant::now() < due => {}
                None if notices => return Ok(true),
                None if self.idle => {}
                None => {
                    self.idle = true;
                    // A housekeeper that is busy sees to the log anyway.
                    if self.spec.chores.tell(Chore::Idle).is_ok() {
                        self.store.expect_own_change();
                    }
                }
            }
        }
    }

    /// Compares the paths of the files with what is open, once in a while.
    fn check_files(&mut self) -> Result<(), Stopped> {
        let mut refused = false;
        while self.check_files_at <= Instant::now() {
            match self.store.check_files() {
                Ok(()) => self.check_files_at = Instant::now() + CHECK_FILES,
                Err(error) => {
                    self.endure(&error)?;
                    refused = true;
                }
            }
        }
        if refused {
            self.tries.connected();
        }
        Ok(())
    }

    /// Leaves the database to another process that writes, after a turn of `took`.
    fn leave_room(&mut self, took: Duration) {
        self.room += self.store.room_after(took);
        // Shorter sleeps would be mostly overhead.
        if self.room >= SHORTEST_ROOM {
            std::thread::sleep(self.room);
            self.metrics.left.add(u64::try_from(self.room.as_millis()).unwrap_or(u64::MAX));
            self.room = Duration::ZERO;
        }
    }

    /// Has the write-ahead log moved into the database as it grows: the housekeeper moves all but the last pages while the
    /// store goes on, the store moves those between two turns, and the log begins anew.
    fn watch_log(&mut self) {
        let pages = self.wal_pages.load(Relaxed);
        self.metrics.wal.set(pages);
        let before = self.spec.log.pages.swap(pages, Relaxed);
        if pages < before {
            self.checkpoint_at = CHECKPOINT_PAGES;
        }
        let log = &self.spec.log;
        if pages < self.checkpoint_at || log.rest_due.load(Relaxed) || log.chasing.swap(true, Relaxed) {
            return;
        }
        self.checkpoint_at = pages + RETRY_PAGES;
        if self.spec.chores.tell(Chore::Checkpoint).is_err() {
            // It has much to do for operators.
            log.chasing.store(false, Relaxed);
        }
    }

    /// Moves the last pages of the log, in place of a turn of ingest or deletion, so that nobody waits for both.
    fn take_rest(&mut self) {
        self.spec.log.rest_due.store(false, Relaxed);
        if let Err(error) = self.store.checkpoint_rest() {
            tracing::warn!(%error, "checkpoint failed; the write-ahead log stays until the next one");
        }
        self.checkpoint_at = self.wal_pages.load(Relaxed) + RETRY_PAGES;
        self.group.background_had_its_turn();
    }

    /// Leaves a database that a plain copy finds whole.
    fn close(self) {
        let path = &self.spec.config.database;
        let checkpoint = |link: Checkpointer| link.checkpoint(CheckpointMode::Truncate);
        let done = self.spec.log.beside_the_store(path, || Checkpointer::open(path), checkpoint);
        if let Err(error) = done {
            tracing::warn!(%error, "the last checkpoint failed; the next start finds everything in the write-ahead log");
        }
    }
}

enum Came {
    Request(StoreRequest),
    Ingest(IngestOp),
    Stop,
}

/// Waits; true when asked to stop meanwhile.
fn pause(stop: &StopToken, span: Duration) -> bool {
    block_on(Some(Instant::now() + span), stop.cancelled()).is_some()
}
