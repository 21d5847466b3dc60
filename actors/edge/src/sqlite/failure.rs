//! Errors of SQLite with advice by their code.

use std::path::Path;

use orchestrator_observe::{FailureKind, LinkFailure};
use rusqlite::{Error, ErrorCode};

use crate::{
    file_failure::{file_failure, full, permission_advice},
    shell_word,
};

/// Failure of a link to the database at `path` by `error`; `reason` describes it.
pub fn failure(reason: impl Into<String>, path: &Path, error: &Error) -> LinkFailure {
    let shown = path.to_string_lossy();
    let file = shell_word(&shown);
    let help = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => return full(reason, path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("fuser -v {file}; end the transaction of the other process")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            // SQLite gives the files of its log the mode that the database had.
            permission_advice(path, "*")
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            format!(
                "sqlite3 {file} 'PRAGMA integrity_check'; restore the file from a backup, or move it away"
            )
        }
        Some(ErrorCode::SystemIoFailure) => {
            format!("dmesg | tail; df -h {file}; repair the disk or the mount")
        }
        _ => return LinkFailure::new(FailureKind::Unusable, reason),
    };
    LinkFailure::new(FailureKind::Unusable, reason).with_help(help)
}

/// Does the same for an error of SQLite or of the system.
pub fn failure_of(
    reason: impl Into<String>,
    path: &Path,
    error: &(dyn std::error::Error + 'static),
) -> LinkFailure {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(error), _) => failure(reason, path, error),
        (None, Some(error)) => file_failure(reason, path, error),
        (None, None) => LinkFailure::new(FailureKind::Unusable, reason),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn advice_follows_the_code() {
        for (code, help) in [
            (ffi::SQLITE_FULL, "df -h var/q.db"),
            (ffi::SQLITE_BUSY, "fuser -v var/q.db"),
            (ffi::SQLITE_READONLY, "ls -ld var var/q.db*; "),
            (ffi::SQLITE_READONLY_DBMOVED, "ls -ld var var/q.db*; "),
            (ffi::SQLITE_CANTOPEN, "ls -ld var var/q.db*; "),
            (ffi::SQLITE_PERM, "ls -ld var var/q.db*; "),
            (ffi::SQLITE_NOTADB, "sqlite3 var/q.db"),
            (ffi::SQLITE_CORRUPT, "integrity_check"),
            (ffi::SQLITE_IOERR, "dmesg"),
            (ffi::SQLITE_CONSTRAINT, ""),
        ] {
            let error = Error::SqliteFailure(ffi::Error::new(code), None);
            let failure = failure("so", Path::new("var/q.db"), &error);
            let is_full = failure.kind == FailureKind::DiskFull;
            assert_eq!(is_full, code == ffi::SQLITE_FULL);
            let found = failure.help.unwrap_or_default();
            assert!(found.contains(help) && found.is_empty() == help.is_empty(), "{code}: {found}");
        }
    }
}
