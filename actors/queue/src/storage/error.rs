//! What can go wrong in a storage.

use std::path::PathBuf;

use orchestrator_edge::FileReplaced;

/// An error of the storage. Which of them are worth another try without a change from outside, [`Self::is_retryable`] says.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another connection holds the lock that is needed. Nothing happened.
    #[error("database {path} is in use by another process: waiting for exclusive access", path = .path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// Another instance of this program has the database (CONTRACT QR41).
    #[error("database {path} belongs to a running instance: stop that one, or give this one a database of its own", path = .path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// The database was written by a newer program. It was not touched.
    #[error("database {path} has schema version {found}, this program knows {known}: run the newer program, or point to another database", path = .path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file is no database, or a damaged one.
    #[error("database {path} is damaged ({reason}): set it aside and rebuild it from the fetcher files", path = .path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The disk is full or a quota is used up.
    #[error("no space left for database {path}: free some", path = .path.display())]
    Full {
        /// The database file.
        path: PathBuf,
    },
    /// A file of the open database is not at its path any more. What was committed since is in no file there.
    #[error(
        "{replaced}: it is opened anew as at a start; to bring back another file, stop this program before"
    )]
    Replaced {
        /// The file.
        replaced: FileReplaced,
    },
    /// The fetcher is known and the run is not.
    #[error("run {started} of fetcher {fetcher:?} is not known: upsert it first")]
    UnknownRun {
        /// The fetcher.
        fetcher: String,
        /// The run.
        started: i64,
    },
    /// Reading or writing failed, or the backend refused.
    #[error("database {path}: {action} failed: check the disk and the permissions", path = .path.display())]
    Backend {
        /// The database file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the backend says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<FileReplaced> for StorageError {
    fn from(replaced: FileReplaced) -> Self {
        Self::Replaced { replaced }
    }
}

impl StorageError {
    /// Whether the same call may succeed later with nothing but time passing.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Locked { .. }
                | Self::Full { .. }
                | Self::Replaced { .. }
                | Self::Backend { .. }
        )
    }
}
