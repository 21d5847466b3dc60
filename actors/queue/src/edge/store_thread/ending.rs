//! End of an incarnation of the store's thread, and what becomes of a database whose files were deleted or replaced.

use std::time::Duration;

use orchestrator_edge::FileReplaced;
use orchestrator_supervise::{Fault, Origin, StartCx, Verb};

use super::{Shift, pause, unix_time};
use crate::storage::StorageError;

/// Time that a database whose files were replaced is left alone before it is opened anew: whoever replaces them may not be done.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// Why an incarnation ends without a fault.
pub(super) enum End {
    /// It was asked to.
    Asked,
    /// The database is to be opened anew.
    Replaced(FileReplaced),
}

/// Why no further turn is made.
pub(super) enum Stopped {
    Asked,
    Replaced(FileReplaced),
    Failed(Fault),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl From<FileReplaced> for Stopped {
    fn from(replaced: FileReplaced) -> Self {
        Self::Replaced(replaced)
    }
}

/// Has the supervisor restart this child, and everything behind it, which speaks of the database that was open.
pub(super) fn start_anew(cx: &StartCx, replaced: &FileReplaced) -> Result<(), Fault> {
    let path = cx.vitals.path();
    let origin = Origin { by: path.to_owned(), reason: replaced.to_string() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| Fault::from_error(&error))?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = cx.stop.cancelled() => Ok(()),
            refused = cx.tree.command(path, Verb::Restart, &origin) => match refused {
                Ok(_) => Ok(()),
                Err(error) => Err(Fault::from_error(&error)),
            },
        }
    })
}

impl Shift<'_> {
    /// Closes a database of which a file is at its path no more. Requests wait meanwhile.
    pub(super) fn give_up(mut self, replaced: FileReplaced) -> Result<End, Fault> {
        let error = StorageError::from(replaced.clone());
        self.tries.incomplete(error.to_string(), REOPEN_AFTER);
        self.thread.log.set_files(None);
        let stopped = pause(&self.cx.stop, REOPEN_AFTER);
        if let Err(error) = self.store.abandon(&replaced, unix_time()) {
            tracing::warn!(%error, "what was committed last may be missing in the database that was open");
        }
        Ok(if stopped { End::Asked } else { End::Replaced(replaced) })
    }
}
