//! Reasons why an incarnation of the queue store ends.

use orchestrator_edge::FileReplaced;
use orchestrator_supervise::{Fault, Origin, StartCx, block_on};

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

/// Asks the supervisor to restart this child, and everything behind it, which speaks of the database that was open; ends with the stop that
/// follows.
pub(super) fn start_anew(cx: &StartCx, replaced: &FileReplaced) -> Result<(), Fault> {
    let path = cx.vitals.path();
    let origin = Origin { by: path.to_owned(), reason: replaced.to_string() };
    cx.tree.request_restart(path, &origin).map_err(|error| Fault::from_error(&error))?;
    // An end without that stop would count as a failure.
    block_on(None, cx.stop.cancelled());
    Ok(())
}
