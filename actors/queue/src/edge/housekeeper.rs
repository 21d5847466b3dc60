//! The housekeeper: a thread that runs checkpoints, answers operators and counts for the metrics. It has
//! connections of its own, so that no commit waits for it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_edge::DatabaseFiles;
use orchestrator_queue_rules::storage::{Questions, StorageError, StorageErrorKind};
use orchestrator_supervise::{Fault, InboxSlot, PauseSpan, Received, Reply, StartCx};
use parking_lot::Mutex;

#[cfg(feature = "postgres")]
use crate::edge::postgres::PostgresInspector;
use crate::{
    config::{QueueConfig, StoreKind},
    edge::{
        expected_runs::ExpectedRuns,
        gauges::Gauges,
        pause_file,
        sqlite::{CheckpointMode, Checkpointed, Checkpointer, Inspector, IsAsked, file_replaced},
        unix_time::unix_time,
    },
    messages::{Answer, Chore},
};

/// Time limit of an operator's question; the console itself waits 2 s.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Maximum number of passive checkpoints over a growing log before the store moves the rest.
const PASSES_MAX: usize = 6;
/// Number of pages that the store moves between two commits (measured: 4 to 9 ms for 700 random
/// pages).
const FINAL_PASS_PAGES: u64 = 800;

/// State of the write-ahead log shared by the store and the housekeeper. Only one of them moves
/// pages at a time; two concurrent checkpoints would keep the log from being reused.
///
/// Shared instead of sent in messages: the store updates `pages` with every commit. The housekeeper needs
/// only the latest value, in the middle of a checkpoint. Not `Durable` state: each incarnation of the store
/// and the housekeeper resets its part.
#[derive(Debug, Default)]
pub(crate) struct WalState {
    /// Number of pages in the log after the store's last commit.
    pub(crate) pages: AtomicU64,
    /// True while the housekeeper shrinks the log.
    pub(crate) checkpoint_running: AtomicBool,
    /// True if the store is to move the remaining pages.
    pub(crate) final_pass_due: AtomicBool,
    /// Files that the store has open; None while it has none. Other connections must use the same
    /// files.
    files: Mutex<Option<DatabaseFiles>>,
}

impl WalState {
    /// Sets the files that the store has open.
    pub(crate) fn set_files(&self, files: Option<DatabaseFiles>) {
        *self.files.lock() = files;
    }

    /// Runs `work` on a second connection made by `open`. Fails if the path refers to other files
    /// than those that the store has open, because the connection would use the other file's log.
    pub(crate) fn with_second_connection<C, T>(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<C, StorageError>,
        work: impl FnOnce(C) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let files = self.files.lock().clone();
        let Some(files) = files else {
            let path = path.display();
            let text = format!("database {path} is not open: orchestrator why queue/queue_store tells why");
            return Err(StorageError::new(StorageErrorKind::NotOpen, text));
        };
        files.check().map_err(file_replaced)?;
        let connection = open()?;
        // Checked again, since the file may have been replaced before the connection opened it.
        files.check().map_err(file_replaced)?;
        work(connection)
    }
}

/// The child: configuration and inbox of all incarnations.
pub(crate) struct Housekeeper {
    pub(crate) config: QueueConfig,
    pub(crate) chores: InboxSlot<Chore>,
    pub(crate) wal_state: Arc<WalState>,
}

/// State of one incarnation.
struct Incarnation<'a> {
    spec: &'a Housekeeper,
    #[cfg(feature = "postgres")]
    postgres: PostgresInspector,
}

impl Housekeeper {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mut chores = self.chores.open();
        // The store asks again for a checkpoint that a former incarnation did not finish.
        self.wal_state.checkpoint_running.store(false, Relaxed);
        let mut gauges = Gauges::new(&cx.vitals);
        let expected = ExpectedRuns::new(&self.config.expect, &self.config.input_dir, &cx.vitals);
        let mut incarnation = Incarnation {
            spec: self,
            #[cfg(feature = "postgres")]
            postgres: PostgresInspector::new(&self.config, QUESTION_TIMEOUT, cx.stop.clone()),
        };
        loop {
            match chores.recv_blocking(&cx.stop, Some(gauges.next_sample())) {
                Received::Item(chore) => {
                    let _work = cx.vitals.begin_work(chore.name());
                    if chore.shows_jobs() {
                        gauges.hasten();
                    }
                    incarnation.execute(chore);
                }
                Received::TimedOut => {
                    let _work = cx.vitals.begin_work("sample");
                    gauges.sample(|| {
                        let always: IsAsked = Arc::new(|| true);
                        let sample =
                            incarnation.ask(always.clone(), |inspector| inspector.sample(unix_time()))?;
                        if !expected.is_empty() {
                            expected.update(
                                &incarnation.ask(always, |inspector| inspector.last_runs())?,
                                unix_time(),
                            );
                        }
                        Ok(sample)
                    });
                }
                Received::Stopped => return Ok(()),
            }
        }
    }
}

impl Incarnation<'_> {
    fn execute(&mut self, chore: Chore) {
        match chore {
            Chore::Checkpoint => {
                self.spec.wal_state.final_pass_due.store(self.shrink_log(), Relaxed);
                self.spec.wal_state.checkpoint_running.store(false, Relaxed);
            }
            Chore::Idle => drop(self.checkpoint(CheckpointMode::Truncate)),
            Chore::Runs(reply) => self.answer(reply, |inspector| inspector.runs()),
            Chore::Peek(pattern, limit, reply) => {
                self.answer(reply, |inspector| inspector.peek(pattern.as_ref(), unix_time(), limit))
            }
            Chore::Counts(reply) => self.answer(reply, |inspector| inspector.counts()),
            Chore::Attr(attr_path, limit, reply) => {
                self.answer(reply, |inspector| inspector.attr(&attr_path, unix_time(), limit))
            }
            Chore::InFlight(pattern, limit, reply) => {
                self.answer(reply, |inspector| inspector.in_flight(pattern.as_ref(), limit))
            }
            Chore::Failed(which, reply) => self.answer(reply, |inspector| inspector.failed(&which)),
            Chore::Failures(after, limit, reply) => {
                self.answer(reply, |inspector| inspector.failures(after, limit))
            }
            Chore::Stale(before, limit, reply) => {
                self.answer(reply, |inspector| inspector.stale(before, limit))
            }
            Chore::Instances(reply) => self.answer(reply, |inspector| inspector.instances()),
            Chore::RecordPause(pause, reply) => drop(reply.send(self.record_pause(pause))),
            #[cfg(feature = "postgres")]
            Chore::Adopt(fetcher, reply) => {
                drop(reply.send(self.postgres.adopt(&fetcher)));
            }
            #[cfg(feature = "postgres")]
            Chore::SharedPause(reply) => {
                drop(reply.send(self.postgres.pause()));
            }
        }
    }

    /// Answers a question, unless the operator has stopped waiting. On SQLite it ends once the operator does.
    fn answer<T: Send + 'static>(
        &mut self,
        reply: Reply<Answer<T>>,
        question: impl FnOnce(&mut dyn Questions) -> Answer<T>,
    ) {
        if reply.is_closed() {
            return;
        }
        let reply = Arc::new(reply);
        let asked = reply.clone();
        let answer = self.ask(Arc::new(move || !asked.is_closed()), question);
        // The connection, which had the other one, is closed.
        if let Some(reply) = Arc::into_inner(reply) {
            drop(reply.send(answer));
        }
    }

    /// Moves pages of the log into the database while the store writes, until few enough are left
    /// for the store. Returns false on a failure.
    ///
    /// A passive checkpoint alone never reaches the end of a log that grows. Each pass syncs the
    /// database file, or the store's own sync would wait for all pages (measured: 28 ms instead of
    /// 5 ms).
    fn shrink_log(&self) -> bool {
        for _ in 0..PASSES_MAX {
            let Some(done) = self.checkpoint(CheckpointMode::Passive) else {
                return false;
            };
            // A log that was reused meanwhile has fewer pages than were moved.
            if self.spec.wal_state.pages.load(Relaxed).saturating_sub(done.checkpointed_pages)
                <= FINAL_PASS_PAGES
            {
                break;
            }
        }
        true
    }

    fn checkpoint(&self, mode: CheckpointMode) -> Option<Checkpointed> {
        let path = &self.spec.config.database;
        let done = self.spec.wal_state.with_second_connection(
            path,
            || Checkpointer::open(path),
            |checkpointer| checkpointer.checkpoint(mode),
        );
        if let Err(error) = &done {
            tracing::warn!(%error, "checkpoint failed: the write-ahead log is kept until the next one");
        }
        done.ok()
    }

    fn record_pause(&mut self, pause: Option<PauseSpan>) -> Result<(), StorageError> {
        match self.spec.config.store {
            StoreKind::Sqlite => pause_file::record(&self.spec.config.database, pause),
            #[cfg(feature = "postgres")]
            StoreKind::Postgres => self.postgres.record_pause(pause),
        }
    }

    /// Answers a question. On SQLite on a new connection: questions are rare, and an idle connection would
    /// keep the log from being truncated.
    fn ask<T>(
        &mut self,
        is_asked: IsAsked,
        question: impl FnOnce(&mut dyn Questions) -> Answer<T>,
    ) -> Result<T, StorageError> {
        #[cfg(feature = "postgres")]
        if self.spec.config.store == StoreKind::Postgres {
            return question(&mut self.postgres);
        }
        let path = &self.spec.config.database;
        let open = || Inspector::open(path, (&self.spec.config).into(), QUESTION_TIMEOUT);
        let ask = |inspector: Inspector| question(&mut inspector.while_asked(is_asked));
        self.spec.wal_state.with_second_connection(path, open, ask)
    }
}

impl Chore {
    /// Returns true for a question whose answer is a list of jobs, or their number.
    fn shows_jobs(&self) -> bool {
        matches!(
            self,
            Self::Runs(_) | Self::Peek(..) | Self::Counts(_) | Self::InFlight(..) | Self::Failed(..)
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Chore::Checkpoint | Chore::Idle => "checkpoint",
            Chore::RecordPause(..) => "pause",
            #[cfg(feature = "postgres")]
            Chore::SharedPause(_) => "pause",
            _ => "question",
        }
    }
}
