//! The SQLite store: one connection, one open transaction at a time, and a view of the database in memory.

mod operations;
mod waiting;

use super::attempts::Attempts;
use super::bumps::Bumps;
use super::checkpoint::{self, CheckpointMode, Checkpointed};
use super::error::{file_replaced, storage_error};
use super::open::{Opened, Options, lock, open, set_synchronous};
use super::other_writers::OtherWriters;
use super::view::View;
use super::{bumps, deletion, handout, ingest, offers, replaced, staging};
use crate::Synchronous;
use crate::log_file::LogFile;
use orchestrator_edge::{DatabaseFiles, DatabaseLock, FileReplaced};
use orchestrator_queue_rules::storage::{
    Batch, Deletion, Log, Operation, Outcome, RunId, RunState, Storage, StorageError, Upsert,
};
use orchestrator_queue_store::unix_time;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Storage of the queue in a SQLite file, used from one thread. A second connection runs checkpoints
/// ([`super::Checkpointer`]), a third one answers operators ([`super::Inspector`]).
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
    options: Options,
    view: Option<View>,
    /// State of the table of attempts after the last commit.
    attempts: Attempts,
    /// SQLite's `data_version` when `view` was read.
    data_version: i64,
    other_writers: OtherWriters,
    next_handout: i64,
    /// Lowest number of the next failure.
    first_failure: i64,
    wal_pages: Arc<AtomicU64>,
    lock: DatabaseLock,
    /// None if commits need no sync, or the database has no log.
    log: Option<Arc<LogFile>>,
    /// Durability of the next commit.
    synchronous: Synchronous,
}

impl SqliteStore {
    /// Opens or creates the database at `path`, migrates it to schema version 2 and adopts it with tables of
    /// our own. Keeps the rows of a file of the original; a file of version 1 becomes empty (CONTRACT QD01 to
    /// QD04, QR46). Waits for other processes for 50 ms at most.
    ///
    /// # Errors
    /// `StorageErrorKind::Busy` while another process uses the file, `StorageErrorKind::Locked` while another
    /// instance does, `StorageErrorKind::NewerSchema`, `StorageErrorKind::Corrupt`,
    /// `StorageErrorKind::Full`, `StorageErrorKind::Backend`.
    pub fn open(path: &Path, options: Options) -> Result<Self, StorageError> {
        let Opened { mut conn, files, lock, incarnation } = open(path, &options)?;
        let wal_pages = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&wal_pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            shared.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
        .map_err(|error| storage_error(path, "watching the log", error))?;
        let log = files.open_log().map_err(StorageError::backend(path, "opening the log"))?;
        Ok(Self {
            log: log
                .filter(|_| options.synchronous == Synchronous::Full)
                .map(|log| Arc::new(LogFile::new(path, log))),
            conn,
            path: path.to_path_buf(),
            files,
            attempts: Attempts::new(options.attempts),
            synchronous: options.synchronous,
            options,
            view: None,
            data_version: 0,
            other_writers: OtherWriters::default(),
            next_handout: incarnation << 32,
            // There are fewer failures than microseconds, so the numbers of an earlier file are smaller.
            first_failure: unix_time().saturating_mul(1_000_000),
            wal_pages,
            lock,
        })
    }

    /// Pages of the write-ahead log, updated by each commit.
    #[must_use]
    pub fn wal_pages(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.wal_pages)
    }

    pub(crate) fn has_deleted_runs(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.runs.next_deleted(None).is_some())
    }

    /// Moves the rest of the write-ahead log into the database between two transactions, so that the log is
    /// reused and stays short under load. Called when a [`super::Checkpointer`] has left few pages; costs a
    /// write of those and a sync.
    ///
    /// # Errors
    /// `StorageErrorKind::Full`, `StorageErrorKind::Backend`. A lock of another connection is
    /// [`Checkpointed::busy`] instead.
    pub fn checkpoint_final(&mut self) -> Result<Checkpointed, StorageError> {
        checkpoint::run(&self.conn, &self.path, CheckpointMode::Passive)
    }

    #[must_use]
    pub(crate) fn files(&self) -> &DatabaseFiles {
        &self.files
    }

    /// Checks that the files at their paths are the open ones, and keeps other instances out.
    ///
    /// # Errors
    /// `StorageErrorKind::Replaced`: call [`SqliteStore::close_replaced`]. `StorageErrorKind::Locked` if the
    /// lock file was replaced and another instance has the lock: nothing may be written until the call
    /// succeeds.
    pub(crate) fn check_files(&mut self) -> Result<(), StorageError> {
        self.files.check().map_err(file_replaced)?;
        if self.lock.is_replaced() {
            self.lock = lock(&self.path)?;
            tracing::warn!(path = ?self.lock.path(), "the lock file was deleted or replaced: locked the new file");
        }
        Ok(())
    }

    /// Closes a database after one of its files was `replaced`. Moves every commit into the open database
    /// file. Sets a log at the path aside if it belongs to another file. `unix_time` is in seconds.
    ///
    /// # Errors
    /// Of SQLite or the file system; the database is closed nevertheless.
    pub(crate) fn close_replaced(self, replaced: &FileReplaced, unix_time: i64) -> Result<(), StorageError> {
        replaced::close(self.conn, &self.path, &self.files, replaced, unix_time)
    }

    /// Announces that the next change of `data_version` comes from another connection of this process.
    pub(crate) fn expect_own_change(&mut self) {
        self.other_writers.expect_own_change();
    }

    /// Lets other processes write after a transaction of `took`.
    #[must_use]
    pub(crate) fn pause_after(&self, took: Duration) -> Duration {
        self.other_writers.pause_after(took)
    }

    /// Counts the steps of SQLite's virtual machine, a measure of cost that does not depend on the computer.
    ///
    /// # Errors
    /// Of SQLite.
    #[cfg(feature = "testing")]
    pub fn count_steps(&mut self) -> Result<Arc<AtomicU64>, StorageError> {
        let steps = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&steps);
        let count = move || {
            shared.fetch_add(1, Ordering::Relaxed);
            false
        };
        self.conn
            .progress_handler(1, Some(count))
            .map_err(|error| storage_error(&self.path, "counting steps", error))?;
        Ok(steps)
    }

    fn start(&mut self, synchronous: Synchronous) -> rusqlite::Result<()> {
        if self.synchronous != synchronous {
            set_synchronous(&self.conn, synchronous)?;
            self.synchronous = synchronous;
        }
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        self.refresh_view()
    }

    fn begin_with(&mut self, synchronous: Synchronous) -> Result<(), StorageError> {
        let started = self
            .start(synchronous)
            .map_err(|error| storage_error(&self.path, "beginning a transaction", error));
        if started.is_err() {
            self.rollback()?;
        }
        started
    }

    /// Reads changes that others committed since the last transaction. Needs an open transaction.
    fn refresh_view(&mut self) -> rusqlite::Result<()> {
        let data_version =
            self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.view.is_none() || data_version != self.data_version {
            // The first view is no sign of other writers.
            if self.data_version != 0 && data_version != self.data_version {
                self.other_writers.record_commit();
            }
            self.view = Some(View::load(&self.conn, self.attempts, &self.options.limits)?);
            self.data_version = data_version;
        }
        Ok(())
    }

    fn run<T>(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&Connection, &mut View, &Options) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        // Without a transaction there is no view either.
        let Some(view) = self.view.as_mut().filter(|_| !self.conn.is_autocommit()) else {
            return Err(StorageError::no_transaction(action));
        };
        work(&self.conn, view, &self.options).map_err(|error| {
            let error = storage_error(&self.path, action, error);
            tracing::debug!(%error, action, "storage operation failed");
            error
        })
    }
}

impl Storage for SqliteStore {
    fn begin(&mut self) -> Result<(), StorageError> {
        self.begin_with(self.options.synchronous)
    }

    fn begin_unsynced(&mut self) -> Result<(), StorageError> {
        self.begin_with(Synchronous::Normal)
    }

    fn log(&self) -> Option<Arc<dyn Log>> {
        Some(self.log.clone()?)
    }

    fn commit(&mut self) -> Result<(), StorageError> {
        let done = self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        match done {
            // A commit into a file that is not at the path any more must not be answered.
            Ok(_) => {
                self.attempts = self.view.as_ref().map_or(self.attempts, |view| view.attempts);
                self.files.check_database().map_err(file_replaced)
            }
            Err(error) => {
                self.rollback()?;
                Err(storage_error(&self.path, "committing", error))
            }
        }
    }

    fn rollback(&mut self) -> Result<(), StorageError> {
        self.view = None;
        if self.conn.is_autocommit() {
            return Ok(());
        }
        let done = self.conn.execute_batch("ROLLBACK");
        done.map_err(|error| storage_error(&self.path, "rolling back", error))
    }

    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError> {
        self.run("listing the runs", |_, view, _| Ok(view.runs.states()))
    }

    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError> {
        self.run("adding a run", |conn, view, _| {
            if let Some(fetcher_id) = view.runs.fetcher_id(&run.fetcher) {
                // A fetcher without a live run does not exist for other programs, so it gets a new number
                // when it returns.
                let gone = view.runs.live_runs(fetcher_id).is_empty() && view.runs.has_deleted_of(fetcher_id);
                if gone || view.runs.is_deleted(fetcher_id, run.started) {
                    view.urgent = Some(fetcher_id);
                    return Ok(Upsert::Pending);
                }
            }
            view.runs.upsert(conn, run, complete)?;
            Ok(Upsert::Done)
        })
    }

    fn stage(&mut self, batch: &mut Batch) -> Result<(), StorageError> {
        staging::stage(&mut self.conn, batch.entries_mut())
            .map_err(|error| storage_error(&self.path, "staging a long line", error))
    }

    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError> {
        let reached = self.run("storing entries", |conn, view, _| {
            let Some(fetcher_id) = view.runs.fetcher_id(&run.fetcher) else { return Ok(None) };
            let live = view.runs.live_runs(fetcher_id);
            if !live.contains(&run.started) {
                return Ok(None);
            }
            ingest::enqueue(conn, view, fetcher_id, run.started, &live, batch.entries_from(from), deadline)
                .map(|taken| Some(from + taken))
        })?;
        reached.ok_or_else(|| StorageError::unknown_run(&run.fetcher, run.started))
    }

    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError> {
        self.run("deleting a run", |conn, view, _| {
            let Some(fetcher_id) = view.runs.fetcher_id(&run.fetcher) else { return Ok(false) };
            if !view.runs.is_live(fetcher_id, run.started) {
                return Ok(false);
            }
            view.runs.mark(conn, fetcher_id, run.started)?;
            view.heads.drop_run(fetcher_id, run.started);
            Ok(true)
        })
    }

    fn delete_slice(&mut self, may_continue: &dyn Fn() -> bool) -> Result<Deletion, StorageError> {
        self.run("removing rows of a deleted run", |conn, view, _| deletion::slice(conn, view, may_continue))
    }

    fn serve(
        &mut self,
        batch: &[Operation<'_>],
        mut unsent: u64,
        now: i64,
    ) -> Result<Vec<Outcome>, StorageError> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for operation in batch {
            let outcome = self.carry_out(*operation, unsent, now)?;
            if let Outcome::Worker { job: Some(job), .. } = &outcome {
                unsent += job.payload.len() as u64;
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        self.run("undoing hand-outs", |conn, view, options| {
            handout::forget_delivered(conn, options.redeliver_after_lease)?;
            bumps::forget_used(conn)?;
            view.bumps = Bumps::load(conn)?;
            handout::undo_undelivered(conn, view)
        })
    }

    fn withdraw_waiting(&mut self, now: i64) -> Result<usize, StorageError> {
        self.run("withdrawing jobs", |conn, view, _| offers::withdraw_waiting(conn, view, now))
    }
}
