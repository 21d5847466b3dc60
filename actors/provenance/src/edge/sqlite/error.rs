//! From SQLite's errors to the store's.

use std::{io, path::Path};

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// The identity of the files of a database cannot be had.
pub(in crate::edge) fn unobserved(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Away(format!("looking at the files of {}: {error}", path.display()))
}

/// Translates; `action` says what was tried.
///
/// A damaged file is [`StoreError::Away`] too: the rows are not at fault, and whoever sent them must keep them.
pub(in crate::edge) fn explain(path: &Path, action: &str, error: &rusqlite::Error) -> StoreError {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Away(format!("{action} {path}: another connection has it locked, try again"))
        }
        Some(ErrorCode::DiskFull) => {
            StoreError::Away(format!("{action} {path}: the disk is full, make room and try again"))
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            StoreError::Away(format!("{action} {path}: {error}, restore the file from a backup"))
        }
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation) => {
            StoreError::Refused(format!("{action} {path}: {error}, correct the rows"))
        }
        _ => StoreError::Away(format!("{action} {path}: {error}")),
    }
}
