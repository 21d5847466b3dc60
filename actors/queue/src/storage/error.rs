//! Errors of a storage.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

#[cfg(feature = "postgres")]
use orchestrator_edge::postgres::{PostgresError, SqlState};
use orchestrator_edge::{FileReplaced, file_failure, sqlite};

use orchestrator_supervise::{FailureKind, Fault, LinkFailure};

/// SQLSTATE of a transaction of a process whose place another one has taken.
#[cfg(feature = "postgres")]
const PLACE_TAKEN: &str = "OQ001";
/// SQLSTATE of the refusal to take the place of a process that lives.
#[cfg(feature = "postgres")]
const PLACE_IN_USE: &str = "OQ002";

/// Error of a storage. [`Self::is_retryable`] tells which errors may pass with time.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another connection holds the lock; nothing was changed.
    #[error("database {path} is in use by another process: waiting for exclusive access", path = .path.display())]
    Busy {
        /// The database file.
        path: PathBuf,
    },
    /// The queue store has not opened the database yet, or lost it; its node in the tree tells why.
    #[error("database {path} is not open: orchestrator why queue/queue_store tells why", path = .path.display())]
    NotOpen {
        /// The database file.
        path: PathBuf,
    },
    /// Another instance of this program uses the database (CONTRACT QR41).
    #[error("database {path} is used by a running instance: stop that one, or set another path in queue.database", path = .path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// A newer program wrote the database; it was not changed.
    #[error("database {path} has schema version {found}, this program knows {known}: run the newer program, or point to another database", path = .path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Schema version of the file.
        found: i64,
        /// Newest schema version that this program knows.
        known: i64,
    },
    /// A migration into the database is not complete, so it is no queue yet; it was not changed.
    #[error("{place} has an unfinished migration: finish it with {command}")]
    Unfinished {
        /// The database.
        place: String,
        /// Command that finishes the migration.
        command: String,
    },
    /// The file is not a database, or is damaged.
    #[error("database {path} is damaged ({reason}): set it aside and rebuild it from the fetcher files", path = .path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// Error text of SQLite.
        reason: String,
    },
    /// The disk is full or a quota is exhausted.
    #[error("no space left for database {path}: free some", path = .path.display())]
    Full {
        /// The database file.
        path: PathBuf,
    },
    /// Transactions are committed that a power failure may undo.
    #[error("the log of database {path} cannot be synced: check the disk", path = .path.display())]
    Unsynced {
        /// The database file.
        path: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// A file of the open database was deleted or replaced at its path. Commits since then are not
    /// in the files at the path.
    #[error(
        "{replaced}: the database is opened again as at a start; stop this program before you replace a file"
    )]
    Replaced {
        /// The file.
        replaced: FileReplaced,
    },
    /// The run does not exist, or is marked as deleted.
    #[error("run {started} of fetcher {fetcher:?} is not known: upsert it first")]
    UnknownRun {
        fetcher: String,
        /// The run.
        started: i64,
    },
    /// An operation needs an open transaction.
    #[error("{action}: no transaction is open")]
    NoTransaction {
        /// Action that failed.
        action: &'static str,
    },
    /// The fetcher belongs to another instance that shares the queue.
    #[error(
        "fetcher {fetcher} belongs to the instance {instance}, so its files at the instance {own} are not read: remove them from one of the two directories, or run orchestrator queue adopt {fetcher} at {own}"
    )]
    OtherInstance {
        fetcher: String,
        /// The instance that has its runs.
        instance: String,
        /// This instance.
        own: String,
    },
    /// An operation failed in the file system or the backend.
    #[error("database {path}: {action} failed: check the disk and the permissions", path = .path.display())]
    Backend {
        /// The database file.
        path: PathBuf,
        /// Action that failed.
        action: &'static str,
        /// Error of the backend.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The PostgreSQL server cannot be reached, or failed, or another process has the place of this instance.
    #[cfg(feature = "postgres")]
    #[error("{0}: check the PostgreSQL server and its log")]
    Database(PostgresError),
    /// A newer program made the tables; they were not changed.
    #[cfg(feature = "postgres")]
    #[error(
        "the tables in the schema {schema} have version {found}, this program knows {known}: run the newer program, or name another schema"
    )]
    NewerTables {
        schema: String,
        /// Version of its tables.
        found: i64,
        /// Newest version that this program knows.
        known: i64,
    },
    /// Instances of an older program use the tables, whose functions this program would replace.
    #[cfg(feature = "postgres")]
    #[error(
        "the tables in the schema {schema} have version {found}, and instances of the former program use them: stop {instances}"
    )]
    OlderProgram {
        schema: String,
        /// Version of its tables.
        found: i64,
        /// The instances, with their hosts.
        instances: String,
    },
    /// The schema belongs to another role, which has granted no rights on it.
    #[cfg(feature = "postgres")]
    #[error(
        "the schema {schema} belongs to the role {owner}, and {role} may not use it: {statement}, or name another schema in queue.postgres.schema"
    )]
    ForeignSchema {
        schema: String,
        owner: String,
        /// Role of this program.
        role: String,
        /// Statement that grants the rights.
        statement: String,
    },
    /// The database or a file that the configuration names cannot be used.
    #[cfg(feature = "postgres")]
    #[error("{reason}")]
    Setting {
        /// The database or file, and what is wrong with it.
        reason: String,
    },
    /// A migration is refused.
    #[cfg(feature = "postgres")]
    #[error("{reason}")]
    NotMigrated {
        /// The store, what is wrong with it, and what to do.
        reason: String,
    },
    /// A value in the PostgreSQL database is not of the type that this program's tables have.
    #[cfg(feature = "postgres")]
    #[error(
        "the tables of the queue in PostgreSQL were altered ({reason}): restore them, or name another schema"
    )]
    Altered {
        /// Error of the client.
        reason: String,
    },
}

/// Reason and help for the link to the database.
impl From<&StorageError> for LinkFailure {
    fn from(error: &StorageError) -> Self {
        let reason = Fault::from_error(error).to_string();
        match error {
            #[cfg(feature = "postgres")]
            StorageError::Database(error) => {
                let failure = Self::from(error);
                match error.state.as_ref().map(SqlState::code) {
                    Some(PLACE_IN_USE) => failure.with_help(
                        "stop the other process, or give this one another name in queue.postgres.instance",
                    ),
                    _ => failure,
                }
            }
            #[cfg(feature = "postgres")]
            StorageError::ForeignSchema { statement, .. } => Self::refused(reason, statement),
            StorageError::Full { path } => file_failure(reason, path, &ErrorKind::StorageFull.into()),
            StorageError::Busy { path } | StorageError::Locked { path } => {
                let help = format!("fuser -v {}", path.display());
                Self::new(FailureKind::Unusable, reason).with_help(help)
            }
            StorageError::Backend { path, source, .. } => sqlite::failure_of(reason, path, &**source),
            _ => Self::new(FailureKind::Unusable, reason),
        }
    }
}

#[cfg(feature = "postgres")]
impl From<PostgresError> for StorageError {
    fn from(error: PostgresError) -> Self {
        Self::Database(error)
    }
}

impl From<FileReplaced> for StorageError {
    fn from(replaced: FileReplaced) -> Self {
        Self::Replaced { replaced }
    }
}

impl StorageError {
    /// Converts an error of `action` on the database at `path`.
    pub(crate) fn backend<E>(path: &Path, action: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Self::Backend { path: path.to_path_buf(), action, source: source.into() }
    }

    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            #[cfg(feature = "postgres")]
            Self::Database(error) => error.state == Some(SqlState::DISK_FULL),
            _ => false,
        }
    }

    /// Returns true if the database ended the transaction because of a conflict with another one. It may
    /// succeed if it is repeated. The conflict is a deadlock, or a partition of attempts that the other
    /// transaction made meanwhile (a check violation; the tables have no other checks).
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Database(error) => error.state.as_ref().is_some_and(|state| {
                [
                    SqlState::T_R_DEADLOCK_DETECTED,
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::CHECK_VIOLATION,
                ]
                .contains(state)
            }),
            _ => false,
        }
    }

    /// `state` is JSON with the field `command`.
    pub(crate) fn unfinished(place: String, state: &str) -> Self {
        let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
        let command = state["command"].as_str().unwrap_or("orchestrator queue migrate").to_owned();
        Self::Unfinished { place, command }
    }

    /// Returns true if the same call may succeed later without a change from outside.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::NotOpen { .. }
            | Self::Locked { .. }
            | Self::Full { .. }
            | Self::Replaced { .. }
            | Self::Backend { .. } => true,
            #[cfg(feature = "postgres")]
            Self::Setting { .. }
            | Self::Altered { .. }
            | Self::OlderProgram { .. }
            | Self::ForeignSchema { .. } => true,
            // A process whose place was taken starts anew.
            #[cfg(feature = "postgres")]
            Self::Database(error) => error.state.as_ref().is_none_or(|state| state.code() != PLACE_TAKEN),
            _ => false,
        }
    }
}
