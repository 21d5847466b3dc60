//! The thread that owns the database: opens it, receives requests and ingest operations, and
//! commits them in groups.
//!
//! A thread and not an actor, because a commit waits for the disk (a sync of 854 ms was measured).
//! A thread is shown as stuck and no second one is started beside it. A turn takes all waiting
//! requests into one transaction, where an actor's handler sees one message.
//!
//! A locked, full or missing database is a state of the link, not a crash: requests wait, and
//! nothing is answered before its commit. A damaged database is set aside and rebuilt from the
//! fetcher files, by a restart of this child and the children started after it. If its files were
//! deleted or replaced, a planned restart opens it again, at no cost to the restart intensity.

mod blockers;
mod checkpoints;
mod replaced;
mod stopped;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::{FileReplaced, LinkState, RetryPolicy};
use orchestrator_supervise::{DurableView, Fault, Inbox, InboxSlot, Outbox, PauseSpan, StartCx, block_on};

use self::stopped::{Stopped, request_restart};
use crate::{
    config::{OnCorrupt, QueueConfig},
    edge::{
        housekeeper::WalState,
        sqlite::{CheckpointMode, Checkpointer, SqliteStore, release_replaced, set_aside},
        unix_time::unix_time,
    },
    group_commit::GroupCommit,
    messages::{Chore, IngestOp, StoreRequest},
    storage::StorageError,
    store_metrics::{FinishedMetrics, StoreMetrics},
};

/// Maximum number of requests in one transaction.
const GROUP_MAX: usize = 512;
/// Consecutive failures that are not reported as an outage, such as another process's short
/// transaction.
const UNREPORTED_FAILURES: u32 = 3;
/// Delay after which delivery notices are committed without other work.
const NOTICE_WAIT: Duration = Duration::from_millis(100);
/// Interval of checks that the database's files were not replaced.
const CHECK_FILES_INTERVAL: Duration = Duration::from_secs(1);
/// Idle time after which the write-ahead log is truncated.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pages in the write-ahead log that start a checkpoint (32 MiB). Fewer reduce the ingest rate by a
/// tenth, more make no difference (measured).
const CHECKPOINT_PAGES: u64 = 8_192;

/// Minimum pause for other processes that write. Shorter sleeps are mostly overhead.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The child: inboxes and settings of all incarnations.
pub(crate) struct QueueStore {
    pub(crate) config: QueueConfig,
    pub(crate) requests: InboxSlot<StoreRequest>,
    pub(crate) ingest: InboxSlot<IngestOp>,
    pub(crate) chores: Outbox<Chore>,
    pub(crate) wal_state: Arc<WalState>,
    /// Pause of hand-outs by an operator.
    pub(crate) pause: DurableView<Option<PauseSpan>>,
}

/// State of one incarnation.
struct Incarnation<'a> {
    spec: &'a QueueStore,
    cx: &'a StartCx,
    link: LinkState,
    metrics: StoreMetrics,
    finished: FinishedMetrics,
    store: SqliteStore,
    wal_pages: Arc<AtomicU64>,
    group: GroupCommit,
    requests: Inbox<StoreRequest>,
    ingest: Inbox<IngestOp>,
    /// Number of pages in the log that starts the next checkpoint.
    checkpoint_at: u64,
    idle: bool,
    /// Time of the next check of the database's files.
    check_files_at: Instant,
    /// Pause owed to other processes that write.
    pause_owed: Duration,
    /// Time of the last failure for lack of space.
    full_at: Option<Instant>,
}

impl QueueStore {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let requests = self.requests.open();
        let ingest = self.ingest.open();
        // No connection is open now.
        self.wal_state.set_files(None);
        release_replaced(&self.config.database);
        cx.vitals.set_work_unit("job");
        let link =
            LinkState::new(cx, "sqlite", self.config.database.display().to_string(), RetryPolicy::LOCAL_LOCK)
                .report_after_failures(UNREPORTED_FAILURES);
        let Some(store) = self.open(cx, &link)? else { return Ok(()) };
        self.wal_state.set_files(Some(store.files().clone()));
        let incarnation = Incarnation {
            spec: self,
            metrics: StoreMetrics::register(&cx.vitals),
            finished: FinishedMetrics::register(&cx.vitals),
            wal_pages: store.wal_pages(),
            cx,
            link,
            store,
            group: GroupCommit::new(),
            requests,
            ingest,
            checkpoint_at: CHECKPOINT_PAGES,
            idle: false,
            check_files_at: Instant::now() + CHECK_FILES_INTERVAL,
            pause_owed: Duration::ZERO,
            full_at: None,
        };
        match incarnation.work()? {
            None => Ok(()),
            // Connections and inboxes are closed, so waiting requests fail now.
            Some(replaced) => request_restart(cx, &replaced),
        }
    }

    /// Opens the database and waits as long as it is unavailable. Returns None when asked to stop.
    fn open(&self, cx: &StartCx, link: &LinkState) -> Result<Option<SqliteStore>, Fault> {
        loop {
            match SqliteStore::open(&self.config.database, (&self.config).into()) {
                Ok(store) => {
                    link.connected();
                    return Ok(Some(store));
                }
                Err(error @ StorageError::Corrupt { .. }) => self.set_aside(&error)?,
                Err(error) if error.is_retryable() => {
                    blockers::report_full(&cx.vitals, &error);
                    if !link.retry_blocking(Fault::from_error(&error).to_string()) {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(Fault::from_error(&error)),
            }
        }
    }

    /// Renames a damaged database, unless the configuration refuses that.
    fn set_aside(&self, damage: &StorageError) -> Result<(), Fault> {
        if self.config.on_corrupt == OnCorrupt::Refuse {
            return Err(Fault::new(format!("{damage}; queue.on_corrupt is \"refuse\"")));
        }
        let kept =
            set_aside(&self.config.database, unix_time()).map_err(|error| Fault::from_error(&error))?;
        tracing::error!(%damage, ?kept, "set the damaged database aside: rebuilding it from the fetcher files");
        Ok(())
    }
}

impl Incarnation<'_> {
    /// Works until asked to stop, or until a file of the database was replaced, which is returned.
    fn work(mut self) -> Result<Option<FileReplaced>, Fault> {
        while let Some(request) = self.requests.try_recv() {
            self.group.add_request(request);
        }
        match self.recover().and_then(|()| self.serve()) {
            Ok(()) | Err(Stopped::StopRequested) => {
                self.close();
                Ok(None)
            }
            Err(Stopped::Replaced(replaced)) => Ok(self.close_replaced(replaced)),
            Err(Stopped::Failed(fault)) => Err(fault),
        }
    }

    /// Runs turns until asked to stop.
    fn serve(&mut self) -> Result<(), Stopped> {
        while self.wait_for_work()? {
            let _work = self.cx.vitals.begin_work("group");
            if self.spec.wal_state.final_pass_due.load(Relaxed) && !self.group.next_serves_requests(true) {
                self.final_checkpoint();
                continue;
            }
            let paused = self.spec.pause.get().is_some();
            let (begun, jobs) = (Instant::now(), self.metrics.worked());
            match self.group.turn(&mut self.store, paused, &self.metrics, unix_time()) {
                Ok(finished) => {
                    finished.into_iter().for_each(|job| self.finished.record(job));
                    self.link.succeeded();
                    if self.metrics.worked() != jobs {
                        self.cx.vitals.record_work();
                    }
                    self.schedule_checkpoint();
                    self.pause_for_other_writers(begun.elapsed());
                }
                Err(error) => self.handle_error(&error)?,
            }
        }
        Ok(())
    }

    /// Undoes hand-outs of former incarnations whose replies were not delivered.
    fn recover(&mut self) -> Result<(), Stopped> {
        loop {
            match self.group.recover(&mut self.store, unix_time()) {
                Ok(undone) => {
                    if undone > 0 {
                        tracing::warn!(undone, "jobs whose replies were not delivered are available again");
                        self.metrics.undone.add(undone as u64);
                    }
                    return Ok(());
                }
                Err(error) => self.handle_error(&error)?,
            }
        }
    }

    /// Handles a failed operation: waits before the next try, or ends the incarnation.
    fn handle_error(&mut self, error: &StorageError) -> Result<(), Stopped> {
        if let StorageError::Replaced { replaced } = error {
            return Err(Stopped::Replaced(replaced.clone()));
        }
        // A replaced file looks damaged, too, but the file at its path must not be set aside.
        self.store.files().check()?;
        if matches!(error, StorageError::Corrupt { .. }) {
            // The restart of this child also restarts the reader, which reads the files again.
            self.spec.set_aside(error)?;
        } else if error.is_retryable() {
            self.metrics.retried.add(1);
            if matches!(error, StorageError::Full { .. }) {
                // On a small disk the log may use the space; once moved, its pages are reused.
                let _ = self.store.checkpoint_final();
                self.report_full(error);
            }
            let goes_on = self.link.retry_blocking(Fault::from_error(error).to_string());
            return if goes_on { Ok(()) } else { Err(Stopped::StopRequested) };
        }
        Err(Fault::from_error(error).into())
    }

    /// Receives waiting requests and one ingest operation.
    fn receive(&mut self) {
        while self.group.is_reconciled() && self.group.waiting() < GROUP_MAX {
            let Some(request) = self.requests.try_recv() else {
                break;
            };
            self.group.add_request(request);
        }
        if self.group.has_room_for_ingest()
            && let Some(op) = self.ingest.try_recv()
        {
            self.group.add_ingest(op);
        }
    }

    /// Waits until a turn has something to do. Returns false when asked to stop and nothing is
    /// left.
    fn wait_for_work(&mut self) -> Result<bool, Stopped> {
        let mut quiet_since = Instant::now();
        loop {
            self.check_files()?;
            self.receive();
            if self.group.has_work() {
                self.idle = false;
                return Ok(true);
            }
            let notices = self.group.has_delivery_notices();
            let wait = if notices { NOTICE_WAIT } else { IDLE_TIMEOUT };
            let due = if notices || !self.idle { quiet_since + wait } else { self.check_files_at };
            let (requests, ingest) = (&mut self.requests, &mut self.ingest);
            let (reconciled, has_room_for_ingest) =
                (self.group.is_reconciled(), self.group.has_room_for_ingest());
            let event = block_on(Some(due.min(self.check_files_at)), async {
                tokio::select! {
                    biased;
                    Some(request) = requests.recv(), if reconciled => Event::Request(request),
                    Some(op) = ingest.recv(), if has_room_for_ingest => Event::Ingest(op),
                    () = self.cx.stop.cancelled() => Event::Stop,
                }
            });
            match event {
                Some(Event::Request(request)) => {
                    self.group.add_request(request);
                    quiet_since = Instant::now();
                }
                Some(Event::Ingest(op)) => self.group.add_ingest(op),
                // The last delivery notices need a turn.
                Some(Event::Stop) => return Ok(notices),
                None if Instant::now() < due => {}
                None if notices => return Ok(true),
                None if self.idle => {}
                None => {
                    self.idle = true;
                    // A busy housekeeper checkpoints anyway.
                    if self.spec.chores.tell(Chore::Idle).is_ok() {
                        self.store.expect_own_change();
                    }
                }
            }
        }
    }

    /// Checks the database's files if the next check is due.
    fn check_files(&mut self) -> Result<(), Stopped> {
        let mut refused = false;
        while self.check_files_at <= Instant::now() {
            match self.store.check_files() {
                Ok(()) => {
                    self.check_files_at = Instant::now() + CHECK_FILES_INTERVAL;
                    self.report_waiting();
                }
                Err(error) => {
                    self.handle_error(&error)?;
                    refused = true;
                }
            }
        }
        if refused {
            self.link.connected();
        }
        Ok(())
    }

    /// Pauses after a turn of `took` if another process writes to the database.
    fn pause_for_other_writers(&mut self, took: Duration) {
        self.pause_owed += self.store.pause_after(took);
        if self.pause_owed >= PAUSE_MIN {
            std::thread::sleep(self.pause_owed);
            self.metrics.paused.add(u64::try_from(self.pause_owed.as_millis()).unwrap_or(u64::MAX));
            self.pause_owed = Duration::ZERO;
        }
    }

    /// Truncates the write-ahead log, so that a plain copy of the database is complete.
    fn close(self) {
        let path = &self.spec.config.database;
        let checkpoint = |link: Checkpointer| link.checkpoint(CheckpointMode::Truncate);
        let done = self.spec.wal_state.with_second_connection(path, || Checkpointer::open(path), checkpoint);
        if let Err(error) = done {
            tracing::warn!(%error, "the last checkpoint failed: the next start reads the write-ahead log");
        }
    }
}

enum Event {
    Request(StoreRequest),
    Ingest(IngestOp),
    Stop,
}
