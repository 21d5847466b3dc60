//! SQLite as the store of the thread: checkpoints of the write-ahead log, other programs that write, files
//! that are replaced or damaged.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::{FileReplaced, LinkState};
use orchestrator_observe::{metrics, millis};
use orchestrator_queue_rules::{
    storage::{Storage, StorageError, StorageErrorKind, Waiting},
    unserved::Unserved,
};
use orchestrator_queue_store::{OpenStore, Stopped, Upkeep, Wiring, unix_time};
use orchestrator_supervise::StartCx;

use crate::{
    CheckpointMode, SqliteQueue, SqliteStore,
    error::{file_replaced, link_failure},
};

/// Pages in the write-ahead log that start a checkpoint (32 MiB). Fewer reduce the ingest rate by a
/// tenth, more make no difference (measured).
const CHECKPOINT_PAGES: u64 = 8_192;
/// Pages by which a checkpoint is later during a deletion (96 MiB). A checkpoint writes twice as many pages
/// as it moves, while both the deletion and workers wait for the disk. That is a sixth of the deletion's time
/// (measured).
const DELETION_PAGES: u64 = 24_576;
/// A look whether somebody works is followed by this many times its duration without one: it reads the whole
/// log.
const LOOK_PAUSE: u32 = 100;
/// Pages written before the next checkpoint if the log could not be reused because of a reader or
/// an error.
const RETRY_PAGES: u64 = 1_024;
/// Minimum pause for other processes that write. Shorter sleeps are mostly overhead.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Delay before the database is opened again, so that another program can finish replacing its
/// files.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

metrics! {
    /// Metrics of a database file. They outlive restarts of the child.
    struct FileMetrics {
        /// Time for which the store paused so that other processes could write to the database.
        paused: counter("milliseconds") as "paused_for_other_writers",
        /// Pages of 4096 bytes in the database's write-ahead log.
        wal: gauge("pages") as "write_ahead_log",
    }
}

/// The open store.
pub(super) struct OpenSqlite {
    store: SqliteStore,
    queue: SqliteQueue,
    wiring: Wiring,
    metrics: FileMetrics,
    wal_pages: Arc<AtomicU64>,
    /// Number of pages in the log that starts the next checkpoint.
    checkpoint_at: u64,
    /// Jobs that wait while nobody works, as of the last look.
    unserved: Option<Unserved>,
    /// Time of the next look.
    look_at: Instant,
    /// Pause owed to other processes that write.
    pause_owed: Duration,
}

impl OpenSqlite {
    pub(super) fn new(queue: SqliteQueue, cx: &StartCx, wiring: &Wiring) -> Result<Self, StorageError> {
        let store = SqliteStore::open(&queue.database, queue.options.clone())?;
        queue.wal_state.set_files(Some(store.files().clone()));
        Ok(Self {
            wal_pages: store.wal_pages(),
            store,
            queue,
            wiring: wiring.clone(),
            metrics: FileMetrics::register(&cx.vitals),
            checkpoint_at: CHECKPOINT_PAGES,
            unserved: None,
            look_at: Instant::now(),
            pause_owed: Duration::ZERO,
        })
    }

    /// Starts a checkpoint when the write-ahead log has [`CHECKPOINT_PAGES`], and again after each
    /// [`RETRY_PAGES`]. The housekeeper moves most pages while the store continues, and the store moves
    /// the rest between two turns. Idle time, a stop and a full disk also start one.
    fn schedule_checkpoint(&mut self) {
        let pages = self.wal_pages.load(Relaxed);
        self.metrics.wal.set(pages);
        let wal_state = &self.queue.wal_state;
        let before = wal_state.pages.swap(pages, Relaxed);
        if pages < before {
            self.checkpoint_at = CHECKPOINT_PAGES;
        }
        let later = if self.store.has_deleted_runs() { DELETION_PAGES } else { 0 };
        if pages < self.checkpoint_at + later
            || wal_state.final_pass_due.load(Relaxed)
            || wal_state.checkpoint_running.swap(true, Relaxed)
        {
            return;
        }
        self.checkpoint_at = pages + RETRY_PAGES;
        if !(self.wiring.upkeep)(Upkeep::Checkpoint) {
            // The housekeeper has too many questions of operators.
            wal_state.checkpoint_running.store(false, Relaxed);
        }
    }

    /// Pauses after a turn of `took` if another process writes to the database.
    fn pause_for_other_writers(&mut self, took: Duration) {
        self.pause_owed += self.store.pause_after(took);
        if self.pause_owed >= PAUSE_MIN {
            std::thread::sleep(self.pause_owed);
            self.metrics.paused.add(millis(self.pause_owed));
            self.pause_owed = Duration::ZERO;
        }
    }
}

impl OpenStore for OpenSqlite {
    fn storage(&mut self) -> &mut dyn Storage {
        &mut self.store
    }

    fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError> {
        let waiting = self.store.waiting(now)?;
        if waiting != Waiting::Ready || self.wiring.last_request.is_recent() {
            self.unserved = None;
            return Ok(waiting);
        }
        if self.look_at <= Instant::now() {
            let begun = Instant::now();
            self.unserved = self.store.unserved(now, self.wiring.last_request.unix_time())?;
            self.look_at = Instant::now() + begun.elapsed() * LOOK_PAUSE;
        }
        Ok(self.unserved.map_or(waiting, Waiting::Unserved))
    }

    fn check(&mut self) -> Result<(), StorageError> {
        self.store.check_files()
    }

    fn has_background(&self) -> bool {
        self.queue.wal_state.final_pass_due.load(Relaxed)
    }

    /// Moves the last pages of the log in place of a background turn, so that workers do not wait
    /// for both.
    fn run_background(&mut self) {
        self.queue.wal_state.final_pass_due.store(false, Relaxed);
        if let Err(error) = self.store.checkpoint_final() {
            tracing::warn!(%error, "checkpoint failed: the write-ahead log is kept until the next one");
        }
        self.checkpoint_at = self.wal_pages.load(Relaxed) + RETRY_PAGES;
    }

    fn after_turn(&mut self, took: Duration) {
        self.schedule_checkpoint();
        self.pause_for_other_writers(took);
    }

    /// Has the log truncated. A busy housekeeper checkpoints anyway.
    fn on_idle(&mut self) {
        if (self.wiring.upkeep)(Upkeep::Truncate) {
            self.store.expect_own_change();
        }
    }

    fn before_retry(&mut self, error: &StorageError) -> Result<(), Stopped> {
        if let Some(replaced) = error.source_as::<FileReplaced>() {
            return Err(Stopped::Replaced(replaced.clone()));
        }
        // A replaced file looks damaged, too, but the file at its path must not be set aside.
        self.store.files().check()?;
        match error.kind {
            // The restart of this child also restarts the reader, which reads the files again.
            StorageErrorKind::Corrupt => self.queue.set_damaged_aside(error)?,
            // On a small disk the log may use the space; once moved, its pages are reused.
            StorageErrorKind::Full => drop(self.store.checkpoint_final()),
            _ => {}
        }
        Ok(())
    }

    /// Truncates the write-ahead log, so that a plain copy of the database is complete.
    fn close(self: Box<Self>) {
        let done = self.queue.checkpointer().and_then(|link| link.checkpoint(CheckpointMode::Truncate));
        if let Err(error) = done {
            tracing::warn!(%error, "the last checkpoint failed: the next start reads the write-ahead log");
        }
    }

    /// Requests wait meanwhile.
    fn close_replaced(self: Box<Self>, link: &LinkState, replaced: &FileReplaced) -> bool {
        link.not_ready(link_failure(&file_replaced(replaced.clone())), REOPEN_AFTER);
        self.queue.wal_state.set_files(None);
        let is_running = link.wait_blocking(REOPEN_AFTER);
        if let Err(error) = self.store.close_replaced(replaced, unix_time()) {
            tracing::warn!(%error, "the replaced database may lack the last commits");
        }
        is_running
    }
}
