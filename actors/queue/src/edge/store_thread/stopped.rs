//! Reasons why an incarnation of the store's thread ends.

use orchestrator_edge::FileReplaced;
use orchestrator_supervise::{Fault, Origin, StartCx, Verb};

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
