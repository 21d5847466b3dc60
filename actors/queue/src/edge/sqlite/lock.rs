//! Lock that admits one instance per database.

use crate::edge::suffix::with_suffix;
use crate::storage::StorageError;
use orchestrator_edge::FileIdentity;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Lock held while a store is open. The kernel releases it with the process. The empty file stays,
/// because removing it would let two instances lock two files of one name.
#[derive(Debug)]
pub(super) struct InstanceLock {
    _file: File,
    path: PathBuf,
    identity: FileIdentity,
}

impl InstanceLock {
    /// Locks a file beside `database`. Closing a descriptor of the database file itself would drop
    /// SQLite's locks.
    pub(super) fn take(database: &Path) -> Result<Self, StorageError> {
        let path = with_suffix(database, ".orchestrator-lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(StorageError::backend(database, "opening the lock file"))?;
        let metadata = file.metadata().map_err(StorageError::backend(database, "checking the lock file"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file, path, identity: FileIdentity::of(&metadata) }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Locked { path: database.to_path_buf() }),
            Err(TryLockError::Error(error)) => {
                Err(StorageError::backend(database, "locking the lock file")(error))
            }
        }
    }

    /// Locks the file at the path again if it was deleted or replaced, because another instance
    /// would find it unlocked.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another instance has the new lock; nothing may be written then.
    pub(super) fn relock_if_replaced(&mut self, database: &Path) -> Result<(), StorageError> {
        match FileIdentity::at(&self.path) {
            Ok(now) if now != Some(self.identity) => {
                *self = Self::take(database)?;
                tracing::warn!(path = ?self.path, "the lock file was deleted or replaced: locked the new file");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
