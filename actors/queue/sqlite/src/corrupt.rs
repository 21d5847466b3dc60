//! Sets damaged databases and foreign logs aside.

use orchestrator_edge::with_suffix;
use orchestrator_queue_rules::storage::StorageError;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Suffixes of SQLite's files. The database itself is renamed last: until then the next start still
/// finds it damaged, and its log is never combined with a new file.
const SUFFIXES: [&str; 4] = ["-wal", "-shm", "-journal", ""];

/// Renames a closed database and its companion files to `DB.corrupt-<unix_time>`, and returns the
/// new path (CONTRACT QR48). If that name is taken, `-2`, `-3`, .. is appended. `unix_time` is in
/// seconds.
///
/// # Errors
/// `StorageErrorKind::Backend` if a rename fails; the call may then be repeated.
pub(crate) fn set_aside(db_path: &Path, unix_time: i64) -> Result<PathBuf, StorageError> {
    rename_all(db_path, unix_time).map_err(StorageError::backend(db_path, "setting aside"))
}

/// Renames `log`, a write-ahead log that belongs to another file, to `DB.replaced-<unix_time>-wal`,
/// and returns the new path.
pub(super) fn set_log_aside(db_path: &Path, log: &Path, unix_time: i64) -> Result<PathBuf, StorageError> {
    let rename = || -> io::Result<PathBuf> {
        let target = with_suffix(&free_name(db_path, "replaced", unix_time)?, "-wal");
        fs::rename(log, &target)?;
        Ok(target)
    };
    rename().map_err(StorageError::backend(db_path, "setting a foreign log aside"))
}

fn rename_all(db_path: &Path, unix_time: i64) -> io::Result<PathBuf> {
    let target = free_name(db_path, "corrupt", unix_time)?;
    for suffix in SUFFIXES {
        match fs::rename(with_suffix(db_path, suffix), with_suffix(&target, suffix)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let directory =
        db_path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()?;
    Ok(target)
}

fn free_name(db_path: &Path, why: &str, unix_time: i64) -> io::Result<PathBuf> {
    let first = with_suffix(db_path, &format!(".{why}-{unix_time}"));
    let mut candidate = first.clone();
    let mut number = 2;
    while any_exists(&candidate)? {
        candidate = with_suffix(&first, &format!("-{number}"));
        number += 1;
    }
    Ok(candidate)
}

fn any_exists(candidate: &Path) -> io::Result<bool> {
    for suffix in SUFFIXES {
        if with_suffix(candidate, suffix).try_exists()? {
            return Ok(true);
        }
    }
    Ok(false)
}
