//! Errors of a storage.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

/// Error of a storage. The text says what failed, why, and what to do.
#[derive(Debug)]
pub struct StorageError {
    /// Kind, for callers that treat some errors differently.
    pub kind: StorageErrorKind,
    /// Text for operators.
    pub text: String,
    /// File that the error is about.
    pub file: Option<PathBuf>,
    /// Error of the backend or the file system.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Kind of a [`StorageError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// Another connection holds the lock; nothing was changed.
    Busy,
    /// The queue store has not opened the database yet, or lost it; its node in the tree tells why.
    NotOpen,
    /// Another instance of this program uses the database (CONTRACT QR41).
    Locked,
    /// A newer program wrote the database; it was not changed.
    NewerSchema,
    /// A migration into the database is not complete, so it is no queue yet; it was not changed.
    Unfinished,
    /// The file is not a database, or is damaged.
    Corrupt,
    /// The disk is full or a quota is exhausted.
    Full,
    /// Transactions are committed that a power failure may undo.
    Unsynced,
    /// A file of the open database was deleted or replaced at its path. Commits since then are not in the
    /// files at the path.
    Replaced,
    /// The run does not exist, or is marked as deleted.
    UnknownRun,
    /// An operation needs an open transaction.
    NoTransaction,
    /// The fetcher belongs to another instance that shares the queue.
    OtherInstance,
    /// An operation failed in the file system, the backend or its server.
    Backend,
    /// The server ended the transaction because of a conflict with another one. It may succeed if it is
    /// repeated.
    Conflict,
    /// Another process has taken this instance, so this one must start anew.
    InstanceTaken,
    /// The schema belongs to another role, which has granted no rights on it.
    Denied {
        /// Statement that grants the rights.
        grant: String,
    },
    /// A setting or a file that it names, the tables, or another instance: somebody has to change it.
    Unusable,
    /// A migration is refused.
    NotMigrated,
}

impl StorageError {
    /// Creates an error without a file and a source.
    pub fn new(kind: StorageErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), file: None, source: None }
    }

    /// Names the file that the error is about.
    #[must_use]
    pub fn of_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// Adds the error of the backend or the file system.
    #[must_use]
    pub fn caused_by(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Converts an error of `action` on the database at `path`.
    pub fn backend<E>(path: &Path, action: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        move |source| {
            let text =
                format!("database {}: {action} failed: check the disk and the permissions", path.display());
            Self::new(StorageErrorKind::Backend, text).of_file(path).caused_by(source)
        }
    }

    /// `action` needs an open transaction.
    pub fn no_transaction(action: &str) -> Self {
        Self::new(StorageErrorKind::NoTransaction, format!("{action}: no transaction is open"))
    }

    /// The run `started` of `fetcher` does not exist, or is marked as deleted.
    pub fn unknown_run(fetcher: &str, started: i64) -> Self {
        let text = format!("run {started} of fetcher {fetcher:?} is not known: upsert it first");
        Self::new(StorageErrorKind::UnknownRun, text)
    }

    /// `mark` is JSON with the field `command`, which finishes the migration.
    pub fn unfinished(location: &str, mark: &str) -> Self {
        let mark: serde_json::Value = serde_json::from_str(mark).unwrap_or_default();
        let command = mark["command"].as_str().unwrap_or("orchestrator queue migrate");
        let text = format!("{location} has an unfinished migration: finish it with {command}");
        Self::new(StorageErrorKind::Unfinished, text)
    }

    /// The source, if it is of the type `E`.
    pub fn source_as<E: Error + 'static>(&self) -> Option<&E> {
        self.source.as_deref().and_then(|source| source.downcast_ref())
    }

    /// Returns true if the same call may succeed later without a change from outside.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use StorageErrorKind as Kind;
        matches!(
            self.kind,
            Kind::Busy
                | Kind::NotOpen
                | Kind::Locked
                | Kind::Full
                | Kind::Replaced
                | Kind::Backend
                | Kind::Conflict
                | Kind::Denied { .. }
                | Kind::Unusable
        )
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for StorageError {
    /// None if the text begins with its words.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source = self.source.as_deref()?;
        (!self.text.starts_with(&source.to_string())).then_some(source)
    }
}
