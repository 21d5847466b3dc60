//! Reading of a credentials file under the lock that its writers take.

use std::{
    io::{ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use orchestrator_edge::{read_regular, warn_if_exposed};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Maximum size of a credentials file, in bytes.
const SIZE_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) struct FileVersion {
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

/// Result of reading a file.
#[derive(Debug)]
pub(in crate::edge) enum FileContent {
    Missing,
    /// Locked by a writer.
    Busy,
    Text(String, FileVersion),
}

impl FileContent {
    pub(super) fn version(&self) -> Option<FileVersion> {
        if let Self::Text(_, version) = self { Some(*version) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text, _) = self { Some(text) } else { None }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// Reads `path` without waiting for locks.
///
/// # Errors
/// The file exists and cannot be read; the text names it.
pub(in crate::edge) fn read(path: &Path) -> Result<FileContent, String> {
    let failed = |error: std::io::Error| format!("{}: cannot be read: {error}", path.display());
    let mut file = match read_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FileContent::Missing),
        Err(error) => return Err(failed(error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(FileContent::Busy),
        // The file system has no locks, so nobody can hold one.
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let about = file.metadata().map_err(failed)?;
    warn_if_exposed(path, &about);
    let version =
        FileVersion { inode: about.ino(), modified: (about.mtime(), about.mtime_nsec()), size: about.size() };
    let mut text = String::new();
    let read = file.by_ref().take(SIZE_MAX).read_to_string(&mut text).map_err(failed)?;
    if read as u64 == SIZE_MAX {
        return Err(format!("{}: it is too long for credentials: name another file", path.display()));
    }
    Ok(FileContent::Text(text, version))
}
