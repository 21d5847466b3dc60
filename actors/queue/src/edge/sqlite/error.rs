//! From SQLite's errors to the storage's.

use crate::storage::StorageError;
use rusqlite::ErrorCode;
use std::path::Path;

/// Translates; `action` says what was tried.
pub(super) fn explain(path: &Path, action: &'static str, error: rusqlite::Error) -> StorageError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StorageError::Busy { path },
        Some(ErrorCode::DiskFull) => StorageError::Full { path },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StorageError::Corrupt { path, reason: error.to_string() }
        }
        _ => StorageError::Backend { path, action, source: Box::new(error) },
    }
}
