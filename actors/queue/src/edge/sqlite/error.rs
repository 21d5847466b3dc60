//! Converts errors of SQLite.

use crate::storage::StorageError;
use rusqlite::ErrorCode;
use std::path::Path;

/// Converts `error` to a [`StorageError`]; `action` names what failed.
pub(super) fn storage_error(path: &Path, action: &'static str, error: rusqlite::Error) -> StorageError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StorageError::Busy { path },
        Some(ErrorCode::DiskFull) => StorageError::Full { path },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StorageError::Corrupt { path, reason: error.to_string() }
        }
        _ => StorageError::Backend { path, action, source: error.into() },
    }
}
