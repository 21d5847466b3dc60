//! Files and directories that are written durably.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown},
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const CHUNK: usize = 256 * 1024;

/// Returns the directory of `path`.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the absolute path behind all links. The file may be missing, its directory may not.
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

/// Returns length and SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hash, mut length) = (File::open(path)?, Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => {
                hash.update(&chunk[..read]);
                length += read as u64;
            }
        }
    }
    Ok((length, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Writes the new file `path` and syncs it. A link at the path is an error.
pub(super) fn write_new(path: &Path, content: &mut impl Read, mode: u32) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    io::copy(content, &mut file)?;
    file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    file.sync_all()?;
    Ok(file)
}

/// Gives the file, the link or the directory at `path` to the owner of `like`, if the program runs as root: the service's user must be able
/// to use it.
pub(super) fn give(path: &Path, like: &Metadata) -> io::Result<()> {
    if geteuid().is_root() { lchown(path, Some(like.uid()), Some(like.gid())) } else { Ok(()) }
}

/// Copies `from`, a file or a directory of files, to the new `path`, gives it to the owner of `like`, and syncs it.
pub(super) fn copy_new(from: &Path, path: &Path, like: &Metadata) -> io::Result<()> {
    let metadata = fs::metadata(from)?;
    if !metadata.is_dir() {
        let file = write_new(path, &mut File::open(from)?, metadata.permissions().mode())?;
        give(path, like)?;
        return file.sync_all();
    }
    DirBuilder::new().mode(0o700).create(path)?;
    give(path, like)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_new(&entry.path(), &path.join(entry.file_name()), like)?;
    }
    sync_directory(path)
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

/// Returns true if there is something at the path, which may be a link to nothing.
pub(super) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
