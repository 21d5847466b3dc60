//! Sync of a store's log beside other work.

use std::{
    panic::resume_unwind,
    thread::{self, ScopedJoinHandle},
};

use orchestrator_queue_rules::storage::{Log, StorageError};

/// Makes all commits so far durable in `log` and carries out `then`, in a thread of its own, while this one
/// carries out `work`, which may ask whether the other is done. Returns when both are.
///
/// # Errors
/// Of the sync, in place of the outcome of `then`, which was not carried out.
pub(super) fn sync_beside<T: Send, W>(
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
