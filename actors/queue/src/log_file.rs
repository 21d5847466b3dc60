//! Write-ahead log of a store, synced beside the next transaction.

use std::{
    fs::File,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread::{self, ScopedJoinHandle},
};

use orchestrator_queue_rules::storage::{Log, StorageError, StorageErrorKind};

/// A second descriptor of the log. Another thread syncs it while the store goes on.
#[derive(Debug)]
pub(crate) struct LogFile {
    database: PathBuf,
    file: File,
}

impl LogFile {
    pub(crate) fn new(database: &Path, file: File) -> Self {
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

/// Makes all commits so far durable in `log` and carries out `then`, in a thread of its own, while this one
/// carries out `work`, which may ask whether the other is done. Returns when both are.
///
/// # Errors
/// Of the sync, in place of the outcome of `then`, which was not carried out.
pub(crate) fn sync_beside<T: Send, W>(
    log: &dyn Log,
    mut then: impl FnMut() -> T + Send,
    work: impl FnOnce(&dyn Fn() -> bool) -> W,
) -> (Result<T, StorageError>, W) {
    let mut sync = || log.sync().map(|()| then());
    let (synced, worked) = thread::scope(|scope| {
        let thread = thread::Builder::new().name("log_sync".to_owned()).spawn_scoped(scope, &mut sync).ok();
        let worked = work(&|| thread.as_ref().is_none_or(ScopedJoinHandle::is_finished));
        (thread.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))), worked)
    });
    // There is no thread if the limit of processes is reached.
    (synced.unwrap_or_else(sync), worked)
}
