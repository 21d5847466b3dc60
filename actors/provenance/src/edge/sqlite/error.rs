//! Translation of SQLite's errors to [`StoreError`].

use std::{io, path::Path};

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Translates a failure to identify the database's files.
pub(in crate::edge) fn identity_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("looking at the files of {}: {error}", path.display()))
}

/// Translates an error; `action` names the failed operation.
///
/// A damaged file is [`StoreError::Unavailable`], too: the rows are valid, and their sender must
/// keep them.
pub(in crate::edge) fn explain(path: &Path, action: &str, error: &rusqlite::Error) -> StoreError {
    let (file, path) = (path, path.display());
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(format!("{action} {path}: another connection has it locked, try again"))
        }
        Some(ErrorCode::DiskFull) => {
            let space = orchestrator_edge::free_space(file);
            StoreError::Unavailable(format!("{action} {path}: the disk is full, {space}: make room"))
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            StoreError::Unavailable(format!("{action} {path}: {error}, restore the file from a backup"))
        }
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation) => {
            StoreError::Refused(format!("{action} {path}: {error}, correct the rows"))
        }
        _ => StoreError::Unavailable(format!("{action} {path}: {error}")),
    }
}
