//! The two handles of a file: one that writes, others that only read.

use std::path::{Path, PathBuf};

use orchestrator_edge::DatabaseFiles;
use rusqlite::{Connection, TransactionBehavior};

use super::{
    error::{explain, unobserved},
    lock::OwnerLock,
    open::{self, Options},
    read, replaced, write,
};
use crate::{
    row::Rows,
    store::{Ask, Found, Question, Store, StoreError, Written, check},
};

/// A provenance store in a file. Its futures do their work in the first poll, which blocks on the disk: give it a thread
/// of its own.
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
    _lock: OwnerLock,
}

impl SqliteStore {
    /// Opens the store at `path`, or makes it, with the default [`Options`].
    ///
    /// # Errors
    /// As for [`Self::open_with`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Options::default())
    }

    /// Opens the store at `path`, or makes it. The file is this store's alone until it is dropped, whatever the process.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the file is another program's, or of a newer version: it stays as it was.
    /// [`StoreError::Away`] while another store has it open, or if it cannot be opened.
    pub fn open_with(path: &Path, options: Options) -> Result<Self, StoreError> {
        let (conn, lock) = open::writer(path, options)?;
        let files = DatabaseFiles::at(path).map_err(|error| unobserved(path, &error))?;
        Ok(Self { conn, path: path.to_path_buf(), files, _lock: lock })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All groups in one transaction; an error takes back what was done.
    fn store(&mut self, groups: &[Rows]) -> rusqlite::Result<Written> {
        let mut written = Written::default();
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for rows in groups {
            write::group(&tx, rows, &mut written)?;
        }
        tx.commit()?;
        Ok(written)
    }
}

impl Store for SqliteStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<Written, StoreError> {
        groups.iter().try_for_each(check)?;
        if groups.iter().all(Rows::is_empty) {
            return Ok(Written::default());
        }
        let written = self.store(groups).map_err(|error| explain(&self.path, "writing", &error))?;
        // No answer leaves for rows that are in no file at the path.
        if let Err(lost) = self.files.check() {
            replaced::abandon(&self.conn, &self.files, &lost);
            return Err(StoreError::Away(format!(
                "{lost}: it is opened anew, restore it from a backup if rows are missing"
            )));
        }
        Ok(written)
    }
}

impl Ask for SqliteStore {
    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        read::answer(&self.conn, question).map_err(|error| explain(&self.path, "reading", &error))
    }
}

/// A handle that only reads, for other threads or processes beside the [`SqliteStore`]: neither waits for the other. Each
/// answer shows one moment, with all writes that had returned before it was asked.
#[derive(Debug)]
pub struct SqliteReader {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
}

impl SqliteReader {
    /// Opens the file of a store that was opened at least once.
    ///
    /// # Errors
    /// As for [`SqliteStore::open_with`], but that a store has it open is none; [`StoreError::Away`] if it is not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let conn = open::reader(path)?;
        let files = DatabaseFiles::at(path).map_err(|error| unobserved(path, &error))?;
        Ok(Self { conn, path: path.to_path_buf(), files })
    }
}

impl Ask for SqliteReader {
    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        self.files.check_database().map_err(|lost| StoreError::Away(format!("{lost}: it is opened anew")))?;
        read::answer(&self.conn, question).map_err(|error| explain(&self.path, "reading", &error))
    }
}
