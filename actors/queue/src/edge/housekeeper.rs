//! The thread beside the store: checkpoints and operators' questions, on connections of their own so that no commit
//! waits for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use orchestrator_supervise::{Fault, InboxSlot, Received, StartCx};

use crate::{
    config::QueueConfig,
    edge::{
        sqlite::{CheckpointMode, Checkpointed, Checkpointer, Inspector},
        store_thread::unix_time,
    },
    messages::{Answer, Chore},
    storage::StorageError,
};

/// Longest time for an operator's question, inside the console's own 2 s.
const QUESTION: Duration = Duration::from_millis(1_500);

/// Passes over a log that grows meanwhile, before the store takes the rest however long it is.
const CHASES: usize = 6;
/// Pages that the store moves between two commits in a few milliseconds (random ones cost 15 to 60 ms a thousand).
const REST_PAGES: u64 = 300;

/// What every incarnation of the thread works with.
pub(crate) struct Housekeeper {
    pub(crate) config: QueueConfig,
    pub(crate) chores: InboxSlot<Chore>,
    /// Tells the store that little enough is left of the log.
    pub(crate) rest_due: Arc<AtomicBool>,
}

impl Housekeeper {
    /// One incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mut chores = self.chores.open();
        while let Received::Item(chore) = chores.recv_blocking(&cx.stop, None) {
            let _in_hand = cx.vitals.hold(chore.name());
            match chore {
                Chore::Checkpoint => self.chase_log(),
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
    /// commits. A passive checkpoint alone never catches a busy writer, and the log would grow without bound.
    fn chase_log(&self) {
        for _ in 0..CHASES {
            let Some(done) = self.checkpoint(CheckpointMode::Passive) else {
                return;
            };
            if done.log_pages.saturating_sub(done.checkpointed_pages) <= REST_PAGES {
                break;
            }
        }
        self.rest_due.store(true, Relaxed);
    }

    fn checkpoint(&self, mode: CheckpointMode) -> Option<Checkpointed> {
        let done = Checkpointer::open(&self.config.database).and_then(|link| link.checkpoint(mode));
        if let Err(error) = &done {
            tracing::warn!(%error, "checkpoint failed; the write-ahead log stays until the next one");
        }
        done.ok()
    }

    /// Connects for one question: they are rare, and a connection at rest would keep the log from being cut.
    fn ask<T>(&self, question: impl FnOnce(&mut Inspector) -> Answer<T>) -> Result<T, StorageError> {
        let mut inspector = Inspector::open(&self.config.database, i64::from(self.config.hold_secs))?;
        question(&mut inspector)
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
