//! SQLite as the store of the thread: checkpoints of the write-ahead log, other programs that write, files
//! that are replaced or damaged.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use orchestrator_edge::{FileReplaced, LinkState, RetryPolicy};
use orchestrator_queue_rules::{
    storage::{Storage, StorageError, StorageErrorKind, Waiting},
    unserved::Unserved,
};
use orchestrator_supervise::{Fault, LinkFailure, Outbox, StartCx};

use super::{backend::Backend, child::QueueStore, stopped::Stopped};
use crate::{
    config::{OnCorrupt, QueueConfig},
    edge::{
        housekeeper::WalState,
        sqlite::{
            CheckpointMode, Checkpointer, SqliteStore, file_replaced, link_failure, release_replaced,
            set_aside,
        },
        unix_time::unix_time,
    },
    last_request::LastRequest,
    messages::Chore,
    store_metrics::StoreMetrics,
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

/// The store, and what it shares with the housekeeper.
pub(super) struct SqliteBackend {
    store: SqliteStore,
    config: QueueConfig,
    wal_state: Arc<WalState>,
    chores: Outbox<Chore>,
    wal_pages: Arc<AtomicU64>,
    /// Number of pages in the log that starts the next checkpoint.
    checkpoint_at: u64,
    last_request: LastRequest,
    /// Jobs that wait while nobody works, as of the last look.
    unserved: Option<Unserved>,
    /// Time of the next look.
    look_at: Instant,
    /// Pause owed to other processes that write.
    pause_owed: Duration,
}

impl Backend for SqliteBackend {
    fn link(spec: &QueueStore, cx: &StartCx) -> LinkState {
        let database = spec.config.database.display().to_string();
        LinkState::new(cx, "sqlite", database, RetryPolicy::LOCAL_LOCK).expecting_failures()
    }

    fn link_failure(error: &StorageError) -> LinkFailure {
        link_failure(error)
    }

    fn closed(spec: &QueueStore) {
        spec.wal_state.set_files(None);
        release_replaced(&spec.config.database);
    }

    fn open(spec: &QueueStore, _cx: &StartCx) -> Result<Self, StorageError> {
        let store = SqliteStore::open(&spec.config.database, (&spec.config).into())?;
        spec.wal_state.set_files(Some(store.files().clone()));
        Ok(Self {
            wal_pages: store.wal_pages(),
            store,
            config: spec.config.clone(),
            wal_state: spec.wal_state.clone(),
            chores: spec.chores.clone(),
            checkpoint_at: CHECKPOINT_PAGES,
            last_request: spec.last_request.clone(),
            unserved: None,
            look_at: Instant::now(),
            pause_owed: Duration::ZERO,
        })
    }

    fn repair(spec: &QueueStore, error: &StorageError) -> Result<bool, Fault> {
        let is_damaged = error.kind == StorageErrorKind::Corrupt;
        if is_damaged {
            set_damaged_aside(&spec.config, error)?;
        }
        Ok(is_damaged)
    }

    fn storage(&mut self) -> &mut dyn Storage {
        &mut self.store
    }

    fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError> {
        let waiting = self.store.waiting(now)?;
        if waiting != Waiting::Ready || self.last_request.is_recent() {
            self.unserved = None;
            return Ok(waiting);
        }
        if self.look_at <= Instant::now() {
            let begun = Instant::now();
            self.unserved = self.store.unserved(now, self.last_request.unix_time())?;
            self.look_at = Instant::now() + begun.elapsed() * LOOK_PAUSE;
        }
        Ok(self.unserved.map_or(waiting, Waiting::Unserved))
    }

    fn check(&mut self) -> Result<(), StorageError> {
        self.store.check_files()
    }

    fn has_background(&self) -> bool {
        self.wal_state.final_pass_due.load(Relaxed)
    }

    /// Moves the last pages of the log in place of a background turn, so that workers do not wait
    /// for both.
    fn run_background(&mut self) {
        self.wal_state.final_pass_due.store(false, Relaxed);
        if let Err(error) = self.store.checkpoint_final() {
            tracing::warn!(%error, "checkpoint failed: the write-ahead log is kept until the next one");
        }
        self.checkpoint_at = self.wal_pages.load(Relaxed) + RETRY_PAGES;
    }

    fn turned(&mut self, took: Duration, metrics: &StoreMetrics) {
        self.schedule_checkpoint(metrics);
        self.pause_for_other_writers(took, metrics);
    }

    /// Has the log truncated. A busy housekeeper checkpoints anyway.
    fn rest(&mut self) {
        if self.chores.tell(Chore::Idle).is_ok() {
            self.store.expect_own_change();
        }
    }

    fn examine(&mut self, error: &StorageError) -> Result<(), Stopped> {
        if let Some(replaced) = error.source_as::<FileReplaced>() {
            return Err(Stopped::Replaced(replaced.clone()));
        }
        // A replaced file looks damaged, too, but the file at its path must not be set aside.
        self.store.files().check()?;
        match error.kind {
            // The restart of this child also restarts the reader, which reads the files again.
            StorageErrorKind::Corrupt => set_damaged_aside(&self.config, error)?,
            // On a small disk the log may use the space; once moved, its pages are reused.
            StorageErrorKind::Full => drop(self.store.checkpoint_final()),
            _ => {}
        }
        Ok(())
    }

    /// Truncates the write-ahead log, so that a plain copy of the database is complete.
    fn close(self) {
        let path = &self.config.database;
        let checkpoint = |link: Checkpointer| link.checkpoint(CheckpointMode::Truncate);
        let done = self.wal_state.with_second_connection(path, || Checkpointer::open(path), checkpoint);
        if let Err(error) = done {
            tracing::warn!(%error, "the last checkpoint failed: the next start reads the write-ahead log");
        }
    }

    /// Requests wait meanwhile.
    fn close_replaced(self, link: &LinkState, replaced: &FileReplaced) -> bool {
        link.not_ready(Self::link_failure(&file_replaced(replaced.clone())), REOPEN_AFTER);
        self.wal_state.set_files(None);
        let goes_on = link.wait_blocking(REOPEN_AFTER);
        if let Err(error) = self.store.close_replaced(replaced, unix_time()) {
            tracing::warn!(%error, "the replaced database may lack the last commits");
        }
        goes_on
    }
}

impl SqliteBackend {
    /// Starts a checkpoint when the write-ahead log has [`CHECKPOINT_PAGES`], and again after each
    /// [`RETRY_PAGES`]. The housekeeper moves most pages while the store continues, and the store moves
    /// the rest between two turns. Idle time, a stop and a full disk also start one.
    fn schedule_checkpoint(&mut self, metrics: &StoreMetrics) {
        let pages = self.wal_pages.load(Relaxed);
        metrics.wal.set(pages);
        let before = self.wal_state.pages.swap(pages, Relaxed);
        if pages < before {
            self.checkpoint_at = CHECKPOINT_PAGES;
        }
        let later = if self.store.has_deleted_runs() { DELETION_PAGES } else { 0 };
        if pages < self.checkpoint_at + later
            || self.wal_state.final_pass_due.load(Relaxed)
            || self.wal_state.checkpoint_running.swap(true, Relaxed)
        {
            return;
        }
        self.checkpoint_at = pages + RETRY_PAGES;
        if self.chores.tell(Chore::Checkpoint).is_err() {
            // The inbox is full of operators' questions.
            self.wal_state.checkpoint_running.store(false, Relaxed);
        }
    }

    /// Pauses after a turn of `took` if another process writes to the database.
    fn pause_for_other_writers(&mut self, took: Duration, metrics: &StoreMetrics) {
        self.pause_owed += self.store.pause_after(took);
        if self.pause_owed >= PAUSE_MIN {
            std::thread::sleep(self.pause_owed);
            metrics.paused.add(u64::try_from(self.pause_owed.as_millis()).unwrap_or(u64::MAX));
            self.pause_owed = Duration::ZERO;
        }
    }
}

/// Renames a damaged database, unless the configuration refuses that.
fn set_damaged_aside(config: &QueueConfig, damage: &StorageError) -> Result<(), Fault> {
    if config.on_corrupt == OnCorrupt::Refuse {
        return Err(Fault::new(format!("{damage}; queue.on_corrupt is \"refuse\"")));
    }
    let kept = set_aside(&config.database, unix_time()).map_err(|error| Fault::from_error(&error))?;
    tracing::error!(%damage, ?kept, "set the damaged database aside: rebuilding it from the fetcher files");
    Ok(())
}
