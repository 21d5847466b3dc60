//! Handles of a file: one writer, several readers.

use std::path::{Path, PathBuf};

use orchestrator_edge::{DatabaseFiles, DatabaseLock};
use rusqlite::{Connection, TransactionBehavior};

use super::{
    error::{explain, identity_error},
    open::{self, Options},
    read, replaced, write,
};
use crate::{
    row::Rows,
    store::{OmittedRows, Query, QueryResult, Store, StoreError, StoreReader, check},
};

/// Provenance store in a file. Its futures block on the disk in the first poll: run it on a thread
/// of its own.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
    _lock: DatabaseLock,
}

impl SqliteStore {
    /// Opens or creates the store at `path` with the default [`Options`].
    ///
    /// # Errors
    /// As for [`Self::open_with`].
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Options::default())
    }

    /// Opens or creates the store at `path`. The handle owns the file until it is dropped, across
    /// processes.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the file belongs to another program or a newer version; it is not
    /// changed. [`StoreError::Unavailable`] if another store has it open, or opening fails.
    pub(crate) fn open_with(path: &Path, options: Options) -> Result<Self, StoreError> {
        let (conn, lock) = open::writer(path, options)?;
        let files = DatabaseFiles::at(path).map_err(|error| identity_error(path, &error))?;
        Ok(Self { conn, path: path.to_path_buf(), files, _lock: lock })
    }

    /// Writes all groups in one transaction, which an error rolls back.
    fn store(&mut self, groups: &[Rows]) -> rusqlite::Result<OmittedRows> {
        let mut omitted = OmittedRows::default();
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for rows in groups {
            write::group(&tx, rows, &mut omitted)?;
        }
        tx.commit()?;
        Ok(omitted)
    }
}

impl Store for SqliteStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<OmittedRows, StoreError> {
        groups.iter().try_for_each(check)?;
        if groups.iter().all(Rows::is_empty) {
            return Ok(OmittedRows::default());
        }
        let omitted = self.store(groups).map_err(|error| explain(&self.path, "writing", &error))?;
        // Rows in a replaced file must not be acknowledged.
        if let Err(lost) = self.files.check() {
            replaced::set_aside(&self.conn, &self.files, &lost);
            return Err(StoreError::unavailable(format!(
                "{lost}: it is reopened, restore it from a backup if rows are missing"
            )));
        }
        Ok(omitted)
    }
}

impl StoreReader for SqliteStore {
    async fn read(&mut self, query: &Query) -> Result<QueryResult, StoreError> {
        read::answer(&self.conn, query).map_err(|error| explain(&self.path, "reading", &error))
    }
}

/// Read-only handle for other threads or processes. It neither blocks the [`SqliteStore`] nor waits
/// for it. Each result is a snapshot that includes all writes that returned before the query.
#[derive(Debug)]
pub(crate) struct SqliteReader {
    conn: Connection,
    path: PathBuf,
    files: DatabaseFiles,
}

impl SqliteReader {
    /// Opens the file of an existing store.
    ///
    /// # Errors
    /// As for [`SqliteStore::open_with`], except that an open store is no error.
    /// [`StoreError::Unavailable`] if the file is missing.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let conn = open::reader(path)?;
        let files = DatabaseFiles::at(path).map_err(|error| identity_error(path, &error))?;
        Ok(Self { conn, path: path.to_path_buf(), files })
    }
}

impl StoreReader for SqliteReader {
    async fn read(&mut self, query: &Query) -> Result<QueryResult, StoreError> {
        self.files
            .check_database()
            .map_err(|lost| StoreError::unavailable(format!("{lost}: it is reopened")))?;
        read::answer(&self.conn, query).map_err(|error| explain(&self.path, "reading", &error))
    }
}
