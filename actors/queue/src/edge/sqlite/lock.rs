//! One instance a database.

use crate::storage::StorageError;
use orchestrator_edge::FileIdentity;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Held while a store is open. The lock is the kernel's, so it ends with the process however that ends; the empty file
/// stays, because removing it would let two instances lock two files of one name.
#[derive(Debug)]
pub(super) struct InstanceLock {
    _file: File,
    path: PathBuf,
    identity: FileIdentity,
}

impl InstanceLock {
    /// Locks the sibling of `database`, never the database file itself: closing any handle of that one would drop
    /// SQLite's own locks.
    pub(super) fn take(database: &Path) -> Result<Self, StorageError> {
        let backend = |action, source: std::io::Error| StorageError::Backend {
            path: database.to_path_buf(),
            action,
            source: Box::new(source),
        };
        let path = sibling(database);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| backend("opening the lock file", error))?;
        let metadata = file.metadata().map_err(|error| backend("looking at the lock file", error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file, path, identity: FileIdentity::of(&metadata) }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Locked { path: database.to_path_buf() }),
            Err(TryLockError::Error(error)) => Err(backend("locking the lock file", error)),
        }
    }

    /// Locks the file that is at the path now, if the one that was locked is not there any more: another instance would find it free.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another instance has it already: the database is not ours to write any more.
    pub(super) fn keep(&mut self, database: &Path) -> Result<(), StorageError> {
        match FileIdentity::at(&self.path) {
            Ok(now) if now != Some(self.identity) => {
                *self = Self::take(database)?;
                tracing::warn!(path = ?self.path, "the lock file was deleted or replaced: it is made and locked anew");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn sibling(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".orchestrator-lock");
    PathBuf::from(name)
}
