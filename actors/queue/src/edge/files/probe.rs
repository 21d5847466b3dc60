//! Examines file names without blocking: never opens a FIFO or a device.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use crate::tracking::FileId;

/// Kind of file that a name refers to; symbolic links are followed.
#[derive(Debug)]
pub(super) enum PathKind {
    Absent,
    Regular(FileId),
    /// Not a regular file; the value is its description.
    Irregular(&'static str),
}

pub(super) fn file_id(meta: &Metadata) -> FileId {
    FileId { device: meta.dev(), inode: meta.ino() }
}

/// Returns the kind of file at `path`.
pub(super) fn examine(path: &Path) -> io::Result<PathKind> {
    match fs::metadata(path) {
        Ok(meta) => Ok(match irregular(&meta) {
            None => PathKind::Regular(file_id(&meta)),
            Some(kind) => PathKind::Irregular(kind),
        }),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(PathKind::Absent),
            Some(Errno::LOOP) => Ok(PathKind::Irregular("a loop of symbolic links")),
            _ => Err(error),
        },
    }
}

/// Opens a regular file for reading. Returns None if the path is not a regular file any more.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    if !matches!(examine(path)?, PathKind::Regular(_)) {
        return Ok(None);
    }
    // A FIFO may take the name between the check and the opening; do not wait for its writer.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    Ok(irregular(&meta).is_none().then_some((file, meta)))
}

fn irregular(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_dir() => Some("a directory"),
        _ if kind.is_fifo() => Some("a fifo"),
        _ if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}
