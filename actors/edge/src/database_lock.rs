//! Lock that admits one instance per SQLite database.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{FileIdentity, check_database_files, open_regular_no_link, with_suffix};

/// Only the owner may open the file: whoever can open it can lock it, and so block the next start.
const MODE: u32 = 0o600;

/// Lock of an open database. The kernel releases it with the process. The empty file stays, because removing
/// it would let two instances lock two files of one name.
#[derive(Debug)]
pub struct DatabaseLock {
    _file: File,
    path: PathBuf,
    identity: FileIdentity,
}

impl DatabaseLock {
    /// Locks a file beside `database`, never the database itself: closing any descriptor of that would drop
    /// SQLite's own locks.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another instance has the lock; other kinds if the file cannot be
    /// used.
    pub fn take(database: &Path) -> io::Result<Self> {
        check_database_files(database)?;
        let path = with_suffix(database, ".orchestrator-lock");
        let options = &mut OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(MODE);
        let (file, metadata) = open_regular_no_link(options, &path)?;
        if metadata.permissions().mode() & 0o777 != MODE {
            // Another owner keeps the mode of its file.
            let _ = file.set_permissions(Permissions::from_mode(MODE));
        }
        file.try_lock()?;
        Ok(Self { _file: file, path, identity: FileIdentity::of(&metadata) })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the file was deleted or replaced: another instance would find it unlocked.
    pub fn is_replaced(&self) -> bool {
        FileIdentity::at(&self.path).is_ok_and(|now| now != Some(self.identity))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_one_instance_has_the_lock_and_other_users_cannot_open_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("db");
        fs::write(directory.path().join("db.orchestrator-lock"), "").expect("a file of an older version");
        let lock = DatabaseLock::take(&database).expect("the lock");
        assert_eq!(fs::metadata(lock.path()).expect("the file").permissions().mode() & 0o777, 0o600);
        assert_eq!(DatabaseLock::take(&database).expect_err("it is taken").kind(), io::ErrorKind::WouldBlock);
        assert!(!lock.is_replaced());
        fs::remove_file(lock.path()).expect("remove");
        assert!(lock.is_replaced());
        let new = DatabaseLock::take(&database).expect("a new file");
        assert!(lock.is_replaced() && !new.is_replaced());
        drop(new);
        assert!(DatabaseLock::take(&database).is_ok(), "it is free again");
    }
}
