//! The two handles of a file: one that writes, others that only read.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::{
    error::explain,
    lock::OwnerLock,
    open::{self, Options},
    read, write,
};
use crate::{
    row::Rows,
    store::{Found, Question, Store, StoreError, Written, check},
};

/// A provenance store in a file. Its futures do their work in the first poll, which blocks on the disk: give it a thread
/// of its own.
#[derive(Debug)]
pub struct SqliteStore {
    conn: Connection,
    path: PathBuf,
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
        Ok(Self { conn, path: path.to_path_buf(), _lock: lock })
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
        self.store(groups).map_err(|error| explain(&self.path, "writing", &error))
    }

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
}

impl SqliteReader {
    /// Opens the file of a store that was opened at least once.
    ///
    /// # Errors
    /// As for [`SqliteStore::open_with`], but that a store has it open is none; [`StoreError::Away`] if it is not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { conn: open::reader(path)?, path: path.to_path_buf() })
    }

    /// Answers a question as [`Store::read`] does. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Away`] if the file cannot be read.
    pub fn read(&self, question: &Question) -> Result<Found, StoreError> {
        read::answer(&self.conn, question).map_err(|error| explain(&self.path, "reading", &error))
    }
}
