//! Trait of the work that must not delay a commit.

use std::sync::Arc;

use orchestrator_queue_rules::storage::{Adopted, Questions, StorageError, StorageErrorKind};
use orchestrator_supervise::PauseSpan;

/// Returns false once nobody waits for the answer any more.
pub type IsAsked = Arc<dyn Fn() -> bool + Send + Sync>;

/// Upkeep of the database by the housekeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// Move pages of the write-ahead log into the database while the store continues.
    Checkpoint,
    /// Truncate the write-ahead log of an idle database, so that a plain copy of the file is complete.
    Truncate,
}

/// Connection that answers questions.
pub enum Answering<'a> {
    /// One that stays open.
    Kept(&'a mut dyn Questions),
    /// One that is closed after the question.
    Made(Box<dyn Questions>),
}

impl Answering<'_> {
    /// The connection.
    pub fn get(&mut self) -> &mut dyn Questions {
        match self {
            Self::Kept(kept) => *kept,
            Self::Made(made) => &mut **made,
        }
    }
}

/// Work of the housekeeper, on connections of its own. Each call blocks.
pub trait Maintenance {
    /// Connects for a question. On SQLite it ends once `is_asked` returns false.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotOpen`] unless the thread of the store has the database open, where both must
    /// use the same files. Others of the backend.
    fn questions(&mut self, is_asked: IsAsked) -> Result<Answering<'_>, StorageError>;

    /// Carries out upkeep that the store has asked for. Failures are logged.
    fn upkeep(&mut self, _upkeep: Upkeep) {}

    /// Records durably that hand-outs are paused or resumed, for later starts and for other instances.
    ///
    /// # Errors
    /// Of the file system or the backend.
    fn record_pause(&mut self, pause: Option<PauseSpan>) -> Result<(), StorageError>;

    /// Pause that an operator of any instance recorded. None once its time is over.
    ///
    /// # Errors
    /// Of the backend.
    fn shared_pause(&mut self) -> Result<Option<PauseSpan>, StorageError> {
        Ok(None)
    }

    /// Moves a fetcher to this instance.
    ///
    /// # Errors
    /// Of the backend; [`StorageErrorKind::Unusable`] if the store is not shared.
    fn adopt(&mut self, fetcher: &str) -> Result<Adopted, StorageError> {
        let text = format!("fetcher {fetcher} belongs to no other instance: the queue is not shared");
        Err(StorageError::new(StorageErrorKind::Unusable, text))
    }
}
