//! File that records that an operator paused hand-outs, for the next start of the process.
//!
//! It lies beside the database, so that a pause outlives a database that is rebuilt, and needs no
//! lock that another program may hold.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

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
        File::create(file)?.sync_all()?;
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
