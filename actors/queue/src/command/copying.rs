//! Thread, errors and table of the commands `queue migrate`, `queue dump` and `queue load`.

use std::fmt::Write as _;

use orchestrator_queue_rules::storage::StorageError;
use orchestrator_subsystem::{CommandError, ConfigArguments};

use crate::migration::CopyReport;

/// Copies a queue on a thread of its own: sessions block, which the runtime does not permit on its thread.
pub(super) fn copy(
    work: impl FnOnce() -> Result<CopyReport, StorageError> + Send,
) -> Result<CopyReport, StorageError> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// `action` failed.
pub(super) fn failed(action: &str, error: &StorageError) -> CommandError {
    let cause = std::error::Error::source(error).map(|cause| format!(" ({cause})")).unwrap_or_default();
    CommandError::Local(format!("cannot {action}: {error}{cause}"))
}

/// Table of the copied rows. `heading` is that of the checksums.
pub(super) fn table(report: &CopyReport, heading: &str) -> String {
    let mut text = format!("TABLE          ROWS  {heading}\n");
    for (table, rows, checksum) in &report.tables {
        let _ = writeln!(text, "{table:<8} {rows:>10}  {checksum}");
    }
    let _ = writeln!(text, "{:<19}  {}", "all", report.checksum);
    text
}

/// Command `orchestrator queue COMMAND` with the configuration of `arguments`.
pub(super) fn command_line(command: &str, arguments: &ConfigArguments) -> String {
    let mut text = format!("orchestrator queue {command}");
    for file in &arguments.config {
        let _ = write!(text, " --config {}", file.display());
    }
    for assignment in &arguments.set {
        let _ = write!(text, " --set {assignment}");
    }
    text
}
