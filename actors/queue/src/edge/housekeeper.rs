//! The thread beside the store: checkpoints and operators' questions, on connections of their own so that no commit
//! waits for them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_edge::DatabaseFiles;
use orchestrator_supervise::{Fault, InboxSlot, Received, StartCx};
use parking_lot::Mutex;

use crate::{
    config::QueueConfig,
    edge::{
        sqlite::{CheckpointMode, Checkpointed, Checkpointer, Inspector},
        unix_time::unix_time,
    },
    messages::{Answer, Chore},
    storage::StorageError,
};

/// Longest time for an operator's question, inside the console's own 2 s.
const QUESTION: Duration = Duration::from_millis(1_500);

/// Passes over a log that grows meanwhile, before the store takes the rest however long it is.
const CHASES: usize = 6;
/// Pages that the store moves and syncs between two commits in a few milliseconds (measured: 4 to 9 ms for 700 random ones).
const REST_PAGES: u64 = 800;

/// What the store and its housekeeper tell each other of the write-ahead log. Only one of them moves pages at a time, or
/// each would be in the other's way and the log would not begin anew.
#[derive(Debug, Default)]
pub(crate) struct LogCare {
    /// Pages in the log after the store's last commit.
    pub(crate) pages: AtomicU64,
    /// The housekeeper was asked to move the log, and is not done.
    pub(crate) chasing: AtomicBool,
    /// The housekeeper is done; the rest is for the store.
    pub(crate) rest_due: AtomicBool,
    /// Files that the store has open, none while it has not: nobody else may open what is not one of them.
    files: Mutex<Option<DatabaseFiles>>,
}

impl LogCare {
    /// The store has opened `files`, or closed what it had.
    pub(crate) fn set_files(&self, files: Option<DatabaseFiles>) {
        *self.files.lock() = files;
    }

    /// Carries out `work` on a second connection, which `open` makes. A connection to a file that took the place of the store's would
    /// use that one's log.
    pub(crate) fn beside_the_store<C, T>(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<C, StorageError>,
        work: impl FnOnce(C) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let files = self.files.lock().clone();
        let Some(files) = files else { return Err(StorageError::Busy { path: path.to_path_buf() }) };
        files.check()?;
        let connection = open()?;
        // It has the file that was at the path in between, and has looked at nothing else yet.
        files.check()?;
        work(connection)
    }
}

/// What every incarnation of the thread works with.
pub(crate) struct Housekeeper {
    pub(crate) config: QueueConfig,
    pub(crate) chores: InboxSlot<Chore>,
    pub(crate) log: Arc<LogCare>,
}

impl Housekeeper {
    /// One incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mut chores = self.chores.open();
        // What a former incarnation did not finish is asked for again.
        self.log.chasing.store(false, Relaxed);
        while let Received::Item(chore) = chores.recv_blocking(&cx.stop, None) {
            let _in_hand = cx.vitals.begin_work(chore.name());
            match chore {
                Chore::Checkpoint => {
                    self.log.rest_due.store(self.chase_log(), Relaxed);
                    self.log.chasing.store(false, Relaxed);
                }
                Chore::Idle => drop(self.checkpoint(CheckpointMode::Truncate)),
                // Operators who no longer wait need no answer.
                Chore::Runs(reply) => drop(reply.send(self.ask(|inspector| inspector.runs(QUESTION)))),
                Chore::Peek(limit, reply) => {
                    drop(reply.send(self.ask(|inspector| inspector.peek(unix_time(), limit, QUESTION))));
                }
                Chore::Counts(reply) => drop(reply.send(self.ask(|inspector| inspector.counts(QUESTION)))),
            }
        }
        Ok(())
    }

    /// Moves the log while the store goes on writing, until so little is left that the store can move it between two
    /// commits. A passive checkpoint alone never catches a busy writer, and the log would grow without bound. Each pass
    /// brings what it wrote to the disk, or the store's own sync would wait for all of it (measured: 28 ms instead of 5).
    /// False where it failed.
    fn chase_log(&self) -> bool {
        for _ in 0..CHASES {
            let Some(done) = self.checkpoint(CheckpointMode::Passive) else {
                return false;
            };
            // In a log that began anew meanwhile there are fewer pages than were moved.
            if self.log.pages.load(Relaxed).saturating_sub(done.checkpointed_pages) <= REST_PAGES {
                break;
            }
        }
        true
    }

    fn checkpoint(&self, mode: CheckpointMode) -> Option<Checkpointed> {
        let path = &self.config.database;
        let done = self.log.beside_the_store(path, || Checkpointer::open(path), |link| link.checkpoint(mode));
        if let Err(error) = &done {
            tracing::warn!(%error, "checkpoint failed; the write-ahead log stays until the next one");
        }
        done.ok()
    }

    /// Connects for one question: they are rare, and a connection at rest would keep the log from being cut.
    fn ask<T>(&self, question: impl FnOnce(&mut Inspector) -> Answer<T>) -> Result<T, StorageError> {
        let (path, hold_secs) = (&self.config.database, i64::from(self.config.hold_secs));
        let open = || Inspector::open(path, hold_secs);
        self.log.beside_the_store(path, open, |mut inspector| question(&mut inspector))
    }
}

impl Chore {
    fn name(&self) -> &'static str {
        match self {
            Chore::Checkpoint | Chore::Idle => "checkpoint",
            Chore::Runs(_) | Chore::Peek(..) | Chore::Counts(_) => "question",
        }
    }
}
