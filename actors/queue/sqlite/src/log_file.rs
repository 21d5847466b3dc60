//! Write-ahead log of a store, synced beside the next transaction.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use orchestrator_queue_rules::storage::{Log, StorageError, StorageErrorKind};

/// A second descriptor of the log. Another thread syncs it while the store goes on.
#[derive(Debug)]
pub struct LogFile {
    database: PathBuf,
    file: File,
}

impl LogFile {
    /// `file` is the log of the database at `database`.
    #[must_use]
    pub fn new(database: &Path, file: File) -> Self {
        Self { database: database.to_path_buf(), file }
    }
}

impl Log for LogFile {
    fn sync(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|error| {
            let path = self.database.display();
            let text = format!("the log of database {path} cannot be synced: check the disk");
            StorageError::new(StorageErrorKind::Unsynced, text).caused_by(error)
        })
    }
}
