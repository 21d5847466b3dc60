//! One instance a database.

use crate::storage::StorageError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Held while a store is open. The lock is the kernel's, so it ends with the process however that ends; the empty file
/// stays, because removing it would let two instances lock two files of one name.
#[derive(Debug)]
pub(super) struct InstanceLock {
    _file: File,
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
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(sibling(database))
            .map_err(|error| backend("opening the lock file", error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Locked { path: database.to_path_buf() }),
            Err(TryLockError::Error(error)) => Err(backend("locking the lock file", error)),
        }
    }
}

fn sibling(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".orchestrator-lock");
    PathBuf::from(name)
}
