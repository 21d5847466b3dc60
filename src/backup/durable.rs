//! Files and directories that are written durably.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at a time.
const CHUNK: usize = 256 * 1024;

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Absolute path behind all links. The file may be missing, its directory may not.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => resolve(&parent(path).join(target)),
            Err(_) => Ok(fs::canonicalize(parent(path))?.join(path.file_name().unwrap_or_default())),
        },
        resolved => resolved,
    }
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Length and SHA-256 of a file.
pub(super) type Digest = (u64, String);

/// Copies `content`, and returns its length and SHA-256.
pub(super) fn copy(content: &mut impl Read, to: &mut impl Write) -> io::Result<Digest> {
    let (mut hash, mut length, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        match content.read(&mut chunk)? {
            0 => break,
            read => {
                hash.update(&chunk[..read]);
                to.write_all(&chunk[..read])?;
                length += read as u64;
            }
        }
    }
    Ok((length, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Writes the new file `path` and syncs it. A link at the path is an error.
pub(super) fn write_new(path: &Path, content: &mut impl Read, mode: u32) -> io::Result<(File, Digest)> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let digest = copy(content, &mut file)?;
    file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    file.sync_all()?;
    Ok((file, digest))
}

/// Opens a directory. A link at the path is an error, and a named pipe does not block.
pub(super) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Removes a file, a link, or a directory with its content. There may be nothing at the path.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// True, too, for a link to nothing.
pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
