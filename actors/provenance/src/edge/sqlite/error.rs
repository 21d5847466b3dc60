//! Translation of SQLite's errors to [`StoreError`].

use std::{io, path::Path};

use orchestrator_edge::{file_failure, free_space, sqlite};
use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Translates a failure to identify the database's files.
pub(in crate::edge) fn identity_error(path: &Path, error: &io::Error) -> StoreError {
    let reason = format!("looking at the files of {}: {error}", path.display());
    StoreError::Unavailable(file_failure(reason, path, error))
}

/// Translates an error; `action` names the failed operation.
///
/// A damaged file is [`StoreError::Unavailable`], too: the rows are valid, and their sender must
/// keep them.
pub(in crate::edge) fn explain(path: &Path, action: &str, error: &rusqlite::Error) -> StoreError {
    let shown = path.display();
    let unavailable =
        |why: &str| StoreError::Unavailable(sqlite::failure(format!("{action} {shown}: {why}"), path, error));
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            unavailable("another connection has it locked")
        }
        Some(ErrorCode::DiskFull) => unavailable(&format!("the disk is full, {}", free_space(path))),
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation) => {
            StoreError::Refused(format!("{action} {shown}: {error}, correct the rows"))
        }
        _ => unavailable(&error.to_string()),
    }
}
