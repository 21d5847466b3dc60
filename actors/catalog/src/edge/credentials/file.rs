//! One file of credentials: read under the lock that those who write it take, too.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Longer files are no credentials. bytes
const SIZE_MAX: u64 = 1024 * 1024;

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

/// What came of reading a file.
#[derive(Debug)]
pub(super) enum Reading {
    Missing,
    /// Somebody is writing it.
    Busy,
    Text(String, Stamp),
}

impl Reading {
    pub(super) fn stamp(&self) -> Option<Stamp> {
        if let Self::Text(_, stamp) = self { Some(*stamp) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text, _) = self { Some(text) } else { None }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// Reads `path`, without waiting for anybody.
///
/// # Errors
/// It is there and cannot be read; the text names it.
pub(super) fn read(path: &Path) -> Result<Reading, String> {
    let failed = |error: std::io::Error| format!("{}: cannot be read: {error}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reading::Missing),
        Err(error) => return Err(failed(error)),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Reading::Busy),
        // A file system without locks: nobody else can hold one.
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let about = file.metadata().map_err(failed)?;
    let stamp =
        Stamp { inode: about.ino(), modified: (about.mtime(), about.mtime_nsec()), size: about.size() };
    let mut text = String::new();
    let read = file.by_ref().take(SIZE_MAX).read_to_string(&mut text).map_err(failed)?;
    if read as u64 == SIZE_MAX {
        return Err(format!("{}: it is too long for credentials: name another file", path.display()));
    }
    Ok(Reading::Text(text, stamp))
}
