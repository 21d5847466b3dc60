//! Errors of SQLite and of the files of a database.

use orchestrator_edge::{FileReplaced, file_failure, sqlite};
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_supervise::Fault;
use rusqlite::ErrorCode;
use std::{io, path::Path};

/// Converts `error` to a [`StorageError`]; `action` names what failed.
pub(super) fn storage_error(path: &Path, action: &'static str, error: rusqlite::Error) -> StorageError {
    let shown = path.display();
    let (kind, text) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            StorageErrorKind::Busy,
            format!("database {shown} is in use by another process: waiting for exclusive access"),
        ),
        Some(ErrorCode::DiskFull) => {
            (StorageErrorKind::Full, format!("no space left for database {shown}: free some"))
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
            StorageErrorKind::Corrupt,
            format!(
                "database {shown} is damaged ({error}): set it aside and rebuild it from the fetcher files"
            ),
        ),
        _ => return StorageError::backend(path, action)(error),
    };
    StorageError::new(kind, text).of_file(path)
}

/// A newer program wrote the database.
pub(super) fn newer_schema(path: &Path, found: i64, known: i64) -> StorageError {
    let path = path.display();
    let text = format!(
        "database {path} has schema version {found}, this program knows {known}: run the newer program, or point to another database"
    );
    StorageError::new(StorageErrorKind::NewerSchema, text)
}

/// Converts the error of a file that is not the open one any more.
pub(crate) fn file_replaced(replaced: FileReplaced) -> StorageError {
    let text = format!(
        "{replaced}: the database is opened again as at a start; stop this program before you replace a file"
    );
    StorageError::new(StorageErrorKind::Replaced, text).caused_by(replaced)
}

/// Reason and help for the link to the database.
pub(crate) fn link_failure(error: &StorageError) -> LinkFailure {
    let reason = Fault::from_error(error).to_string();
    match (&error.kind, &error.file, &error.source) {
        (StorageErrorKind::Full, Some(path), _) => {
            file_failure(reason, path, &io::ErrorKind::StorageFull.into())
        }
        (StorageErrorKind::Busy | StorageErrorKind::Locked, Some(path), _) => {
            let help = format!("fuser -v {}", path.display());
            LinkFailure::new(FailureKind::Unusable, reason).with_help(help)
        }
        (StorageErrorKind::Backend, Some(path), Some(source)) => sqlite::failure_of(reason, path, &**source),
        _ => LinkFailure::new(FailureKind::Unusable, reason),
    }
}
