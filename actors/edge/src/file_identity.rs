//! Identity of files, and detection of a SQLite database whose files were deleted or replaced while open.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Device and inode of a file, which no other file gets while the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Follows symbolic links; None if there is no file.
    ///
    /// # Errors
    /// The operating system cannot tell whether there is a file.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::of(&metadata))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Identity of the file that `metadata` describes.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Files of an open SQLite database: database, write-ahead log and shared-memory index.
///
/// SQLite continues with files that were deleted or renamed, so its commits are lost to later readers of the
/// path. A second connection would combine the new database with the old log.
#[derive(Debug, Clone)]
pub struct DatabaseFiles {
    database: (PathBuf, Option<FileIdentity>),
    log: (PathBuf, Option<FileIdentity>),
    log_index: (PathBuf, Option<FileIdentity>),
}

/// Error of a database whose file was deleted or replaced while open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReplaced {
    /// Path of the file.
    pub path: PathBuf,
    /// Role of the file.
    pub part: DatabasePart,
    /// True if there is no file at the path, false if there is another one.
    pub gone: bool,
}

/// A file of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabasePart {
    /// Database.
    Database,
    /// Write-ahead log, `-wal`.
    Log,
    /// Shared-memory index of the log, `-shm`.
    LogIndex,
}

impl std::error::Error for FileReplaced {}

impl fmt::Display for FileReplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.gone { "was deleted or moved" } else { "was replaced by another file" };
        write!(f, "{} {what} while it was open", self.path.display())
    }
}

impl DatabaseFiles {
    /// Records the files of the database at `path`. Call it while the database is open, after a first
    /// transaction has created the log.
    ///
    /// # Errors
    /// The operating system cannot read a file's metadata.
    pub fn at(path: &Path) -> io::Result<Self> {
        // SQLite names the other files after the target of a symbolic link.
        let real = fs::canonicalize(path)?;
        let beside = |suffix: &str| {
            let mut name = real.clone().into_os_string();
            name.push(suffix);
            let name = PathBuf::from(name);
            let identity = FileIdentity::at(&name)?;
            io::Result::Ok((name, identity))
        };
        Ok(Self {
            database: (path.to_owned(), FileIdentity::at(path)?),
            log: beside("-wal")?,
            log_index: beside("-shm")?,
        })
    }

    /// Checks the database file only, by one system call.
    ///
    /// # Errors
    /// [`FileReplaced`] if it was deleted or replaced.
    pub fn check_database(&self) -> Result<(), FileReplaced> {
        check(&self.database, DatabasePart::Database)
    }

    /// Checks all files, the database first.
    ///
    /// # Errors
    /// [`FileReplaced`] about the first file that was deleted or replaced.
    pub fn check(&self) -> Result<(), FileReplaced> {
        self.check_database()?;
        check(&self.log, DatabasePart::Log)?;
        check(&self.log_index, DatabasePart::LogIndex)
    }

    /// Opens the write-ahead log for a sync. Returns None if the file at its path is not the one that the
    /// open database writes.
    ///
    /// # Errors
    /// The operating system cannot open the file or read its metadata.
    pub fn open_log(&self) -> io::Result<Option<File>> {
        let (path, opened) = &self.log;
        if opened.is_none() {
            return Ok(None);
        }
        let file = File::open(path)?;
        Ok((Some(FileIdentity::of(&file.metadata()?)) == *opened).then_some(file))
    }

    /// Path of the write-ahead log; true if it still is the file that the open database writes.
    pub fn log(&self) -> (&Path, bool) {
        (&self.log.0, check(&self.log, DatabasePart::Log).is_ok())
    }
}

/// Checks one file: compares device and inode at its path with those at the opening. A file whose
/// metadata cannot be read counts as unchanged. The queue checks after every commit and every second.
fn check((path, opened): &(PathBuf, Option<FileIdentity>), part: DatabasePart) -> Result<(), FileReplaced> {
    match FileIdentity::at(path) {
        Ok(now) if opened.is_some() && now != *opened => {
            Err(FileReplaced { path: path.clone(), part, gone: now.is_none() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

    use super::*;

    #[test]
    fn a_deleted_or_replaced_file_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["q.db", "q.db-wal", "q.db-shm"] {
            fs::write(path(name), "").unwrap();
        }
        let files = DatabaseFiles::at(&path("q.db")).unwrap();
        fs::write(path("q.db"), "written in place").unwrap();
        assert_eq!(files.check(), Ok(()));
        assert!(files.open_log().unwrap().is_some());
        for (name, part) in [
            ("q.db-shm", DatabasePart::LogIndex),
            ("q.db-wal", DatabasePart::Log),
            ("q.db", DatabasePart::Database),
        ] {
            fs::rename(path(name), path("aside")).unwrap();
            let replaced = files.check().unwrap_err();
            assert_eq!((&replaced.path, replaced.part, replaced.gone), (&path(name), part, true));
            fs::write(path(name), "").unwrap();
            let replaced = files.check().unwrap_err();
            assert_eq!((&replaced.path, replaced.part, replaced.gone), (&path(name), part, false));
            assert_eq!(files.open_log().unwrap().is_some(), part != DatabasePart::Log);
            fs::rename(path("aside"), path(name)).unwrap();
            assert_eq!(files.check(), Ok(()));
        }
    }

    #[test]
    fn a_changed_symbolic_link_is_detected_and_the_log_is_beside_its_target() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("one"), "").unwrap();
        fs::write(path("two"), "").unwrap();
        std::os::unix::fs::symlink(path("one"), path("q.db")).unwrap();
        let files = DatabaseFiles::at(&path("q.db")).unwrap();
        assert_eq!(files.log().0, fs::canonicalize(path("one")).unwrap().with_file_name("one-wal"));
        fs::remove_file(path("q.db")).unwrap();
        std::os::unix::fs::symlink(path("two"), path("q.db")).unwrap();
        assert!(!files.check_database().unwrap_err().gone);
    }
}
