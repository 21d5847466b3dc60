//! Identity of a file whatever its name, and whether the paths of an open SQLite database still stand for the files that are open.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Device and inode of a file. No other file gets them while it is open somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The file at `path`, symbolic links followed; None if there is none.
    ///
    /// # Errors
    /// Of the operating system, if it does not tell whether there is one.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(Self::of(&metadata))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The file that `metadata` describes.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Files of an open SQLite database: itself, its write-ahead log and the index of that.
///
/// SQLite goes on with files that were deleted or renamed: what it commits is in no file at the path any more. Nor may a second
/// connection be opened then: it would take the log of the one file for that of the other.
#[derive(Debug, Clone)]
pub struct DatabaseFiles {
    database: (PathBuf, Option<FileIdentity>),
    log: (PathBuf, Option<FileIdentity>),
    log_index: (PathBuf, Option<FileIdentity>),
}

/// Error: a file of an open database was deleted or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReplaced {
    /// Its path.
    pub path: PathBuf,
    /// Role of the file.
    pub part: DatabasePart,
    /// There is no file at its path; else there is another one.
    pub gone: bool,
}

/// A file of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabasePart {
    /// The database itself.
    Database,
    /// Its write-ahead log, `-wal`.
    Log,
    /// The index of the log in shared memory, `-shm`.
    LogIndex,
}

impl fmt::Display for FileReplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.gone { "was deleted or moved" } else { "was replaced by another file" };
        write!(f, "{} {what} while it was open", self.path.display())
    }
}

impl DatabaseFiles {
    /// The files of the database at `path` as they are now: call it while the database is open and after a first transaction, which
    /// makes the log.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn at(path: &Path) -> io::Result<Self> {
        // SQLite follows symbolic links before it names the others.
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

    /// Tells whether the database itself was deleted or replaced: one system call.
    ///
    /// # Errors
    /// [`FileReplaced`].
    pub fn check_database(&self) -> Result<(), FileReplaced> {
        check(&self.database, DatabasePart::Database)
    }

    /// Tells which file was deleted or replaced, the database first.
    ///
    /// # Errors
    /// [`FileReplaced`].
    pub fn check(&self) -> Result<(), FileReplaced> {
        self.check_database()?;
        check(&self.log, DatabasePart::Log)?;
        check(&self.log_index, DatabasePart::LogIndex)
    }

    /// Path of the write-ahead log, and whether the file there is the one that the open database writes.
    pub fn log(&self) -> (&Path, bool) {
        (&self.log.0, check(&self.log, DatabasePart::Log).is_ok())
    }
}

/// A file that the operating system does not tell about counts as unchanged: there is no sign that anything is lost.
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
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

    use super::*;

    #[test]
    fn a_file_is_known_whatever_comes_to_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["q.db", "q.db-wal", "q.db-shm"] {
            fs::write(path(name), "").unwrap();
        }
        let files = DatabaseFiles::at(&path("q.db")).unwrap();
        fs::write(path("q.db"), "written in place").unwrap();
        assert_eq!(files.check(), Ok(()));
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
            fs::rename(path("aside"), path(name)).unwrap();
            assert_eq!(files.check(), Ok(()));
        }
    }

    #[test]
    fn a_link_to_another_file_is_another_file_and_the_log_is_beside_the_real_one() {
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
