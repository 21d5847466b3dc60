//! File that records that an operator paused hand-outs, for the next start of the process.
//!
//! It lies beside the database, so that a pause outlives a database that is rebuilt, and needs no
//! lock that another program may hold.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{edge::suffix::with_suffix, storage::StorageError};

/// Returns true if hand-outs were paused when the process ended.
pub(crate) fn is_paused(database: &Path) -> bool {
    path(database).exists()
}

/// Records durably that hand-outs are paused or resumed.
pub(super) fn record(database: &Path, paused: bool) -> Result<(), StorageError> {
    let file = path(database);
    write(&file, paused).map_err(StorageError::backend(&file, "recording the pause"))
}

fn write(file: &Path, paused: bool) -> io::Result<()> {
    if paused {
        // A link at the path is refused: whoever may write here must not choose the file.
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let opened = File::options().write(true).create(true).truncate(false).custom_flags(flags).open(file);
        opened?.sync_all()?;
    } else {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn path(database: &Path) -> PathBuf {
    with_suffix(database, ".paused")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_recorded_and_a_link_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = directory.path().join("db");
        for paused in [true, true, false, false] {
            record(&database, paused).expect("recorded");
            assert_eq!(is_paused(&database), paused);
        }
        let other = directory.path().join("other");
        fs::write(&other, "text").expect("a file");
        std::os::unix::fs::symlink(&other, path(&database)).expect("a link");
        record(&database, true).expect_err("a link");
        assert_eq!(fs::read_to_string(&other).expect("the file"), "text");
    }
}
