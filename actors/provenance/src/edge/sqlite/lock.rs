//! Lock file: each database has one owner.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use crate::store::StoreError;

/// Lock of an open store. The kernel releases it with the process. The empty file stays: removing
/// it would let two owners lock two files of one name.
#[derive(Debug)]
pub(super) struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Locks a file beside `database`, never the database itself: closing any descriptor of that
    /// would drop SQLite's own locks.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = sibling(database);
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(|error| {
                StoreError::Unavailable(format!("opening the lock file {}: {error}", path.display()))
            })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(format!(
                "{} is open in another store: stop that one, or give this one a file of its own",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => {
                Err(StoreError::Unavailable(format!("locking the lock file {}: {error}", path.display())))
            }
        }
    }
}

fn sibling(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".orchestrator-lock");
    PathBuf::from(name)
}
