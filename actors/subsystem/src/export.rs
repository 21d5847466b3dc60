//! Exports of a child: rows of any number, read as pages.

use std::{fmt, sync::Arc};

use futures_util::stream::BoxStream;

use crate::console::ConsoleError;

/// Pages of an export. Each has one or more lines of JSON, with their line ends. A page is read when it is
/// polled for, so that one page is in memory; dropping the stream ends the export. An error ends it, too.
pub type ExportPages = BoxStream<'static, Result<String, ConsoleError>>;

/// Function that opens an export by its name and arguments, which may repeat.
type Open = dyn Fn(&str, &[(String, String)]) -> Result<ExportPages, ConsoleError> + Send + Sync;

/// Exports of a child, which [`ChildSpec::attach`](orchestrator_supervise::ChildSpec::attach) adds to it.
/// Cheap to clone.
#[derive(Clone)]
pub struct Exports(Arc<Open>);

impl Exports {
    /// Creates exports. `open` reads no row yet, and fails for an unknown name or an invalid argument.
    pub fn new(
        open: impl Fn(&str, &[(String, String)]) -> Result<ExportPages, ConsoleError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    /// Opens the export `name`.
    ///
    /// # Errors
    /// The name is unknown, or an argument is invalid.
    pub fn open(&self, name: &str, args: &[(String, String)]) -> Result<ExportPages, ConsoleError> {
        (self.0)(name, args)
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exports").finish_non_exhaustive()
    }
}
