//! What a name stands for, found out without ever waiting for it: a FIFO is not opened, a device not touched.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use crate::tracking::FileId;

/// What a name stands for; symbolic links are followed.
#[derive(Debug)]
pub(super) enum Seen {
    Absent,
    Regular(FileId),
    /// Something that has no lines; the word for it.
    Irregular(&'static str),
}

pub(super) fn file_id(meta: &Metadata) -> FileId {
    FileId { device: meta.dev(), inode: meta.ino() }
}

/// Looks at a name.
pub(super) fn look(path: &Path) -> io::Result<Seen> {
    match fs::metadata(path) {
        Ok(meta) => Ok(match irregular(&meta) {
            None => Seen::Regular(file_id(&meta)),
            Some(kind) => Seen::Irregular(kind),
        }),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(Seen::Absent),
            Some(Errno::LOOP) => Ok(Seen::Irregular("a loop of symbolic links")),
            _ => Err(error),
        },
    }
}

/// Opens a regular file for reading. None if the name stands for no regular file any more.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    if !matches!(look(path)?, Seen::Regular(_)) {
        return Ok(None);
    }
    // Another kind of file may take the name between the look and the opening: do not wait for a FIFO's writer.
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
