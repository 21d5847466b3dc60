//! Examines file names without blocking: never opens a FIFO or a device.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use orchestrator_queue_rules::tracking::FileId;
use rustix::{fs::FileType, io::Errno};

use super::links::{RefusedLink, Target};

/// Kind of file that a name refers to; symbolic links are followed if they may be.
#[derive(Debug)]
pub(super) enum PathKind {
    Absent,
    Regular(FileId),
    /// Not a regular file; the value is its description.
    Irregular(&'static str),
    Refused(RefusedLink),
}

pub(super) fn file_id(meta: &Metadata) -> FileId {
    FileId { device: meta.dev(), inode: meta.ino() }
}

pub(super) fn examine(path: &Path) -> io::Result<PathKind> {
    Ok(find(path)?.map_or_else(|kind| kind, |(_, id)| PathKind::Regular(id)))
}

/// Opens a regular file for reading. Returns None if the path is not a regular file any more.
pub(super) fn open(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let Ok((target, _)) = find(path)? else { return Ok(None) };
    let file = match target.open() {
        Ok(Some(file)) => file,
        // Another kind of file took the name between the check and the opening.
        Ok(None) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    Ok(meta.is_file().then_some((file, meta)))
}

/// Finds the regular file at `path`, or what is there instead.
fn find(path: &Path) -> io::Result<Result<(Target, FileId), PathKind>> {
    let target = match Target::find(path) {
        Ok(target) => target,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Err(PathKind::Absent)),
        Err(Errno::LOOP) => return Ok(Err(PathKind::Irregular("a loop of symbolic links"))),
        Err(error) => return Err(error.into()),
    };
    if let Some(kind) = irregular(FileType::from_raw_mode(target.stat.st_mode)) {
        return Ok(Err(PathKind::Irregular(kind)));
    }
    if let Err(refused) = target.check() {
        return Ok(Err(PathKind::Refused(refused)));
    }
    let id = FileId { device: target.stat.st_dev, inode: target.stat.st_ino };
    Ok(Ok((target, id)))
}

fn irregular(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a fifo"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}
