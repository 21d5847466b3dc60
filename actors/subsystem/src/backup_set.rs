//! Files that outlive the process, for `orchestrator backup` and `restore`.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Copies a database that other processes may have open into a new file, and returns its `user_version`.
pub type CopyDatabase = fn(from: &Path, to: &Path) -> io::Result<i64>;
/// Checks the structure of a database that no process has open.
pub type CheckDatabase = fn(&Path) -> io::Result<()>;

/// Files and other state that a backup has to include.
#[derive(Debug, Clone, Default)]
pub struct BackupSet {
    /// Files and directories of this machine.
    pub files: Vec<BackupFile>,
    /// State in databases and brokers that have administrators of their own, each with its address, without
    /// secrets.
    pub elsewhere: Vec<String>,
}

/// A file or directory, which may be missing.
#[derive(Debug, Clone)]
pub struct BackupFile {
    /// Name in a backup, such as `queue/database`. It stays the same in later versions.
    pub role: String,
    /// Path by the present configuration.
    pub path: PathBuf,
    /// Kind, which says how it is copied.
    pub kind: BackupKind,
}

/// Kind of a file in a backup.
#[derive(Debug, Clone, Copy)]
pub enum BackupKind {
    /// SQLite database.
    Database {
        /// Copies it.
        copy: CopyDatabase,
        /// Checks a copy.
        check: CheckDatabase,
    },
    /// File that is replaced by a rename, or written in one piece.
    File,
    /// File that grows by whole lines.
    Lines,
    /// Directory of such files.
    Directory,
}

impl BackupSet {
    /// Adds a SQLite database.
    #[must_use]
    pub fn database(self, role: &str, path: &Path, copy: CopyDatabase, check: CheckDatabase) -> Self {
        self.with(role, path, BackupKind::Database { copy, check })
    }

    /// Adds a file of another kind, or a directory.
    #[must_use]
    pub fn with(mut self, role: &str, path: &Path, kind: BackupKind) -> Self {
        self.files.push(BackupFile { role: role.to_owned(), path: path.to_owned(), kind });
        self
    }

    /// Adds a line about state that is kept elsewhere.
    #[must_use]
    pub fn elsewhere(mut self, line: String) -> Self {
        self.elsewhere.push(line);
        self
    }

    /// Adds all of `other`, whose roles and lines begin with `name`.
    #[must_use]
    pub fn and(mut self, name: &str, other: Self) -> Self {
        let named = |file: BackupFile| BackupFile { role: format!("{name}/{}", file.role), ..file };
        self.files.extend(other.files.into_iter().map(named));
        self.elsewhere.extend(other.elsewhere.into_iter().map(|line| format!("{name}: {line}")));
        self
    }
}
