//! The store: one connection, one group transaction at a time, and what it keeps in memory.

use super::checkpoint::{self, CheckpointMode, Checkpointed};
use super::error::explain;
use super::lock::InstanceLock;
use super::neighbours::Neighbours;
use super::open::{Opened, Options, open};
use super::view::View;
use super::{abandoned, attr, deletion, groups, handout, ingest, staging};
use crate::protocol::ATTR_PATH_BYTES_MAX;
use crate::storage::{
    AttrState, Batch, Deletion, HandoutId, Job, Requeued, RunId, RunState, Storage, StorageError, Upsert,
    is_expired, is_held,
};
use orchestrator_edge::{DatabaseFiles, FileReplaced};
use orchestrator_supervise::sanitize;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Repairs of single groups in one dequeue before the whole table of groups is made anew.
const MAX_REPAIRS: usize = 1_000;

/// Attribute paths that no `DONE` can report and that one dequeue takes out at most (CONTRACT QP13): others wait for its commit. Beyond that it
/// finds no job, and the next one goes on.
const MAX_WITHDRAWN: usize = 32;

/// The queue's storage in a SQLite file. Use it from one thread; a second connection checkpoints
/// ([`super::Checkpointer`]) and a third one answers operators ([`super::Inspector`]).
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
    options: Options,
    view: Option<View>,
    /// SQLite's count of foreign commits when `view` was made.
    data_version: i64,
    neighbours: Neighbours,
    next_handout: i64,
    wal_pages: Arc<AtomicU64>,
    lock: InstanceLock,
}

impl SqliteStore {
    /// Opens or creates the database at `path`, brings it to schema version 2, and makes our own tables in it. Opening a
    /// file made by the original, or by us, keeps its rows; one of version 1 comes up empty (CONTRACT QD01 to QD04, QR46).
    /// Never blocks for longer than about 50 ms on another process.
    ///
    /// # Errors
    /// [`StorageError::Busy`] while another process uses the file: try again later. [`StorageError::Locked`] if another
    /// instance has it, [`StorageError::NewerSchema`], [`StorageError::Corrupt`] (see [`super::set_aside`]),
    /// [`StorageError::Full`], [`StorageError::Backend`].
    pub fn open(path: &Path, options: Options) -> Result<Self, StorageError> {
        let Opened { mut conn, files, lock, incarnation } = open(path, &options)?;
        let wal_pages = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&wal_pages);
        conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
            shared.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
        .map_err(|error| explain(path, "watching the log", error))?;
        Ok(Self {
            conn,
            path: path.to_path_buf(),
            files,
            options,
            view: None,
            data_version: 0,
            neighbours: Neighbours::default(),
            next_handout: incarnation << 32,
            wal_pages,
            lock,
        })
    }

    /// Pages in the write-ahead log after the last commit, for whoever decides when to checkpoint.
    #[must_use]
    pub fn wal_pages(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.wal_pages)
    }

    /// Moves the rest of the write-ahead log into the database, between groups, so that the log starts anew and does not
    /// grow for ever under load. Call it when a [`super::Checkpointer`] has left few pages: it costs a write of those and
    /// a sync.
    ///
    /// # Errors
    /// [`StorageError::Full`], [`StorageError::Backend`]. A lock in the way is no error but [`Checkpointed::busy`].
    pub fn checkpoint_rest(&mut self) -> Result<Checkpointed, StorageError> {
        checkpoint::run(&self.conn, &self.path, CheckpointMode::Passive)
    }

    /// The files that are open.
    #[must_use]
    pub fn files(&self) -> &DatabaseFiles {
        &self.files
    }

    /// Compares the paths of the files with what is open, and keeps other instances out.
    ///
    /// # Errors
    /// [`StorageError::Replaced`]: see [`SqliteStore::abandon`]. [`StorageError::Locked`] if the lock's file was replaced and another
    /// instance has it: nothing may be written before the call succeeds.
    pub fn check_files(&mut self) -> Result<(), StorageError> {
        self.files.check()?;
        self.lock.keep(&self.path)
    }

    /// Closes a database of which a file was `replaced`. Every commit is moved into the database file that is open, wherever it is
    /// now, and a log at the path that is not that of the file there is set aside as of `unix_time`, in seconds.
    ///
    /// # Errors
    /// Of SQLite or the file system; the database is closed in any case.
    pub fn abandon(self, replaced: &FileReplaced, unix_time: i64) -> Result<(), StorageError> {
        abandoned::close(self.conn, &self.path, &self.files, replaced, unix_time)
    }

    /// A connection of ours is about to cut the log: that is not taken for another process's commit.
    pub fn expect_own_change(&mut self) {
        self.neighbours.expect_own_change();
    }

    /// How long to leave the database alone after a transaction of `took`, so that other processes that write get to it.
    #[must_use]
    pub fn room_after(&self, took: Duration) -> Duration {
        self.neighbours.room_after(took)
    }

    /// Where the database is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the table of groups anew from the contract's tables, should somebody have written them with triggers
    /// off. Walks over all rows. Needs an open group transaction.
    ///
    /// # Errors
    /// Of SQLite.
    pub fn rebuild_groups(&mut self) -> Result<(), StorageError> {
        self.run("making the table of groups anew", |conn, view, _| {
            groups::rebuild(conn)?;
            *view = View::load(conn)?;
            Ok(())
        })
    }

    /// Starts to count the steps of SQLite's machine, the measure of work that does not depend on the computer. For tests
    /// of cost; it makes everything slower.
    ///
    /// # Errors
    /// Of SQLite.
    pub fn count_steps(&mut self) -> Result<Arc<AtomicU64>, StorageError> {
        let steps = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&steps);
        let count = move || {
            shared.fetch_add(1, Ordering::Relaxed);
            false
        };
        self.conn
            .progress_handler(1, Some(count))
            .map_err(|error| explain(&self.path, "counting steps", error))?;
        Ok(steps)
    }

    fn start(&mut self) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let data_version =
            self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.view.is_none() || data_version != self.data_version {
            // The first view is no sign of others.
            if self.data_version != 0 && data_version != self.data_version {
                self.neighbours.wrote();
            }
            self.view = Some(View::load(&self.conn)?);
            self.data_version = data_version;
        }
        Ok(())
    }

    fn run<T>(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&Connection, &mut View, &Options) -> rusqlite::Result<T>,
    ) -> Result<T, StorageError> {
        // Without a group there is no view either: the error is SQLite's "no transaction".
        let Some(view) = self.view.as_mut().filter(|_| !self.conn.is_autocommit()) else {
            let source = "no group transaction is open: begin one".into();
            return Err(StorageError::Backend { path: self.path.clone(), action, source });
        };
        work(&self.conn, view, &self.options).map_err(|error| {
            let error = explain(&self.path, action, error);
            tracing::debug!(%error, action, "storage operation failed");
            error
        })
    }
}

impl Storage for SqliteStore {
    fn begin(&mut self) -> Result<(), StorageError> {
        let started = self.start().map_err(|error| explain(&self.path, "beginning a transaction", error));
        if started.is_err() {
            self.rollback()?;
        }
        started
    }

    fn commit(&mut self) -> Result<(), StorageError> {
        let done = self.conn.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        match done {
            // No answer leaves for what is in a file that is not at the path any more.
            Ok(_) => Ok(self.files.check_database()?),
            Err(error) => {
                self.rollback()?;
                Err(explain(&self.path, "committing", error))
            }
        }
    }

    fn rollback(&mut self) -> Result<(), StorageError> {
        self.view = None;
        if self.conn.is_autocommit() {
            return Ok(());
        }
        let done = self.conn.execute_batch("ROLLBACK");
        done.map_err(|error| explain(&self.path, "rolling back", error))
    }

    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError> {
        self.run("listing the runs", |_, view, _| Ok(view.runs.states()))
    }

    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError> {
        self.run("adding a run", |conn, view, _| {
            if let Some(fetcher_id) = view.runs.fetcher_id(&run.fetcher) {
                // A fetcher without a live run is gone for everyone else: it must come back with a number of its own.
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
            .map_err(|error| explain(&self.path, "staging a long line", error))
    }

    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError> {
        let reached = self.run("storing entries", |conn, view, _| {
            let Some(fetcher_id) = view.runs.fetcher_id(&run.fetcher) else { return Ok(Some(batch.len())) };
            let live = view.runs.live_runs(fetcher_id);
            if live.is_empty() {
                return Ok(Some(batch.len()));
            }
            if !live.contains(&run.started) {
                return Ok(None);
            }
            ingest::enqueue(conn, view, fetcher_id, run.started, &live, batch.from_position(from), deadline)
                .map(|taken| Some(from + taken))
        })?;
        reached.ok_or_else(|| StorageError::UnknownRun { fetcher: run.fetcher.clone(), started: run.started })
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

    fn delete_slice(&mut self, budget: Duration) -> Result<Deletion, StorageError> {
        self.run("removing rows of a deleted run", |conn, view, _| deletion::slice(conn, view, budget))
    }

    fn dequeue(&mut self, now: i64) -> Result<Option<Job>, StorageError> {
        let handout = HandoutId(self.next_handout);
        self.next_handout += 1;
        self.run("dequeuing", |conn, view, options| {
            if options.redeliver_after_lease {
                handout::release_expired(conn, view, now, options.hold_secs)?;
            }
            let (mut repairs, mut withdrawn) = (0, 0);
            loop {
                let [free, held] = view.heads.first(conn)?;
                let held = held.filter(|(key, _)| hold_is_over(key.last_started, now, options.hold_secs));
                let Some((key, section)) = free.into_iter().chain(held).min() else { return Ok(None) };
                let state = attr::load(conn, view, &key.attr_path)?;
                let stands = state.places().iter().any(|place| {
                    place.run_started == section.run_started
                        && place.held == section.held
                        && place.is_at(&key)
                });
                if stands && !state.is_out_of_step() && !is_held(state.log.as_ref(), now, options.hold_secs) {
                    if key.attr_path.len() > ATTR_PATH_BYTES_MAX {
                        if withdrawn == MAX_WITHDRAWN {
                            return Ok(None);
                        }
                        withdrawn += 1;
                        withdraw(conn, view, &key.attr_path, &state)?;
                        continue;
                    }
                    return handout::dispatch(conn, view, handout, &key, section.run_started, state, now)
                        .map(Some);
                }
                tracing::warn!(
                    attr_path = key.attr_path,
                    "the table of groups was wrong about an attribute path"
                );
                repairs += 1;
                if repairs > MAX_REPAIRS {
                    groups::rebuild(conn)?;
                    *view = View::load(conn)?;
                    repairs = 0;
                } else {
                    attr::repair(conn, view, section, &key, state)?;
                }
            }
        })
    }

    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64) -> Result<bool, StorageError> {
        self.run("finishing", |conn, view, options| {
            let before = attr::load(conn, view, attr_path)?;
            let mut after = before.clone();
            if !after.finish(exit_code, now) {
                return Ok(false);
            }
            attr::save(conn, view, attr_path, &before, &after)?;
            if options.redeliver_after_lease {
                handout::forget_attr(conn, attr_path)?;
            }
            Ok(true)
        })
    }

    fn delivered(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.run("noting a delivery", |conn, _, options| {
            handout::delivered(conn, handout, options.redeliver_after_lease)
        })
    }

    fn undo(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.run("undoing a hand-out", |conn, view, _| handout::undo(conn, view, handout))
    }

    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        self.run("undoing hand-outs", |conn, view, options| {
            if !options.redeliver_after_lease {
                handout::forget_delivered(conn)?;
            }
            handout::undo_undelivered(conn, view)
        })
    }

    fn requeue(&mut self, attr_path: &str, now: i64) -> Result<Requeued, StorageError> {
        self.run("requeuing", |conn, view, _| {
            let before = attr::load(conn, view, attr_path)?;
            let mut after = before.clone();
            let (rows, was_in_flight) = after.requeue(now);
            attr::save(conn, view, attr_path, &before, &after)?;
            handout::forget_attr(conn, attr_path)?;
            Ok(Requeued { rows, was_in_flight })
        })
    }
}

/// Uses up the rows of an attribute path that no `DONE` can report.
fn withdraw(conn: &Connection, view: &mut View, attr_path: &str, state: &AttrState) -> rusqlite::Result<()> {
    tracing::warn!(
        attr_path = sanitize(attr_path),
        bytes = attr_path.len(),
        "a row of the database is used up and not handed out: no DONE could report so long an attribute path"
    );
    let mut after = state.clone();
    after.withdraw();
    attr::save(conn, view, attr_path, state, &after)
}

fn hold_is_over(started: Option<i64>, now: i64, hold: i64) -> bool {
    started.is_none_or(|started| is_expired(started, now, hold))
}
