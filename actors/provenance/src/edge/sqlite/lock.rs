//! One owner a file.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use crate::store::StoreError;

/// Held while a store is open. The lock is the kernel's, so it ends with the process however that ends; the empty file
/// stays, because removing it would let two owners lock two files of one name.
#[derive(Debug)]
pub(super) struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Locks the sibling of `database`, never the database file itself: closing any handle of that one would drop
    /// SQLite's own locks.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = sibling(database);
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(|error| {
                StoreError::Away(format!("opening the lock file {}: {error}", path.display()))
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Away(format!(
                "{} is open in another store: stop that one, or give this one a file of its own",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => {
                Err(StoreError::Away(format!("locking the lock file {}: {error}", path.display())))
            }
        }
    }
}

fn sibling(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".orchestrator-lock");
    PathBuf::from(name)
}
