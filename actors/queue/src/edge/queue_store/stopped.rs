//! Reasons for the end of an incarnation of the queue store.

use orchestrator_edge::FileReplaced;
use orchestrator_supervise::{Fault, Origin, StartCx, block_on};

/// Reason to run no further turn.
pub(super) enum Stopped {
    StopRequested,
    /// A file of the database was replaced, so the database must be opened again.
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

/// Asks the supervisor to restart this child and the children started after it, which refer to the
/// former database. Returns with the stop that follows.
pub(super) fn request_restart(cx: &StartCx, replaced: &FileReplaced) -> Result<(), Fault> {
    let path = cx.vitals.path();
    let origin = Origin { by: path.to_owned(), reason: replaced.to_string() };
    cx.tree.request_restart(path, &origin).map_err(|error| Fault::from_error(&error))?;
    // An end without a stop would count as a failure.
    block_on(None, cx.stop.cancelled());
    Ok(())
}
