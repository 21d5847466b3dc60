//! State of the write-ahead log, shared by the thread of the store and the housekeeper.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64},
};

use orchestrator_edge::DatabaseFiles;
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use parking_lot::Mutex;

use crate::error::file_replaced;

/// State of the write-ahead log. Only one of the two threads moves pages at a time; two concurrent
/// checkpoints would keep the log from being reused.
///
/// Shared instead of sent in messages: the store updates `pages` with every commit. The housekeeper needs
/// only the latest value, in the middle of a checkpoint. Not `Durable` state: each incarnation of the store
/// and the housekeeper resets its part.
#[derive(Debug, Default)]
pub(super) struct WalState {
    /// Number of pages in the log after the store's last commit.
    pub(super) pages: AtomicU64,
    /// True while the housekeeper shrinks the log.
    pub(super) checkpoint_running: AtomicBool,
    /// True if the store is to move the remaining pages.
    pub(super) final_pass_due: AtomicBool,
    /// Files that the store has open; None while it has none. Other connections must use the same
    /// files.
    files: Mutex<Option<DatabaseFiles>>,
}

impl WalState {
    /// Sets the files that the store has open.
    pub(super) fn set_files(&self, files: Option<DatabaseFiles>) {
        *self.files.lock() = files;
    }

    /// Makes a second connection by `open`. Fails if the path refers to other files than those that the store
    /// has open, because the connection would use the other file's log.
    pub(super) fn second_connection<C>(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<C, StorageError>,
    ) -> Result<C, StorageError> {
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
        Ok(connection)
    }
}
