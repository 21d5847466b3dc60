//! Errors of SQLite with advice, and copies of databases, for backups.

mod failure;

use std::{io, path::Path, time::Duration};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};

pub use self::failure::{failure, failure_of};
use crate::check_database_files;

/// Characters that a path in a URI cannot have as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');
/// Time that a copy waits for a lock of another process.
const BUSY_WAIT: Duration = Duration::from_secs(30);
/// Steps of fewer pages would be of use only without a transaction.
const ALL_PAGES: i32 = -1;

/// Copies the database at `from`, which other processes may use, into the new file `to`, and returns its
/// `user_version`.
///
/// The copy is what the database was at one moment after the call: with a write-ahead log, others go on
/// writing meanwhile, and the log grows by what they write. Without this one transaction, each of their
/// commits would start the copy again.
///
/// # Errors
/// The error of SQLite, or the database is locked. `to` may be incomplete.
pub fn copy(from: &Path, to: &Path) -> io::Result<i64> {
    check_database_files(from)?;
    let run = || -> rusqlite::Result<Option<i64>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let source = Connection::open_with_flags(from, flags)?;
        source.busy_timeout(BUSY_WAIT)?;
        source.execute_batch("BEGIN")?;
        let version = source.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let mut target = Connection::open(to)?;
        // The caller syncs the file, and removes an incomplete one.
        target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
        let backup = Backup::new(&source, &mut target)?;
        let step = backup.step(ALL_PAGES)?;
        Ok((step == StepResult::Done).then_some(version))
    };
    let version = run().map_err(io::Error::other)?;
    version.ok_or_else(|| io::Error::new(io::ErrorKind::ResourceBusy, "the database is locked"))
}

/// Checks the structure of the database at `path`, which no process has open. Creates no files beside it.
///
/// # Errors
/// The first fault, or the error of SQLite.
pub fn check(path: &Path) -> io::Result<()> {
    let run = || -> rusqlite::Result<String> {
        let uri = format!("file:{}?immutable=1", percent_encode(path.as_os_str().as_encoded_bytes(), PATH));
        // Nothing is written. Opening a named pipe that another user has put there would block if it were
        // only for reading.
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri, flags)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
    };
    match run().map_err(io::Error::other)? {
        answer if answer == "ok" => Ok(()),
        fault => Err(io::Error::new(io::ErrorKind::InvalidData, fault)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_copy_has_the_commits_before_it_while_another_connection_writes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a ?#%.db");
        let writer = Connection::open(&path).expect("a database");
        writer
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA user_version = 7; CREATE TABLE t (x);
                 INSERT INTO t VALUES (1); BEGIN IMMEDIATE; INSERT INTO t VALUES (2);",
            )
            .expect("rows");
        let to = directory.path().join("copy ?#%.db");
        assert_eq!(copy(&path, &to).expect("a copy"), 7);
        writer.execute_batch("COMMIT").expect("the writer was not disturbed");
        let before = fs::read_dir(directory.path()).expect("the directory").count();
        check(&to).expect("no fault");
        assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), before);
        let rows = |path: &Path| {
            let found = Connection::open(path).expect("a database");
            found.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).expect("a count")
        };
        assert_eq!((rows(&to), rows(&path)), (1, 2));
        fs::write(&to, "text").expect("write");
        assert!(check(&to).is_err());
        assert!(copy(&directory.path().join("none"), &to).is_err());
    }
}
