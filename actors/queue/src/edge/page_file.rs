//! The file of the exported page, which a reader finds whole at any time.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

const NAME: &str = "index.html";
/// Hidden, so that a web server does not list it.
const TEMPORARY: &str = ".index.html.tmp";

/// Locked file, which other users cannot open: any reader of a directory may lock the directory.
const LOCK: &str = ".index.html.lock";
const LOCK_MODE: u32 = 0o600;

/// Directory of the page, locked against another export until the end of the process.
#[derive(Debug)]
pub(crate) struct PageFile {
    directory: File,
    _lock: File,
    path: PathBuf,
    temporary: PathBuf,
}

impl PageFile {
    /// Locks the directory at `path`, which is created if it is missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another export has the lock; other kinds if the directory cannot be
    /// used.
    pub(crate) fn lock(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let directory = File::open(path)?;
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(LOCK_MODE)
            .custom_flags(flags)
            .open(path.join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { directory, _lock: lock, path: path.join(NAME), temporary: path.join(TEMPORARY) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the page by what `write` writes. A failure, or the end of the process, leaves the page
    /// unchanged.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn replace(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        match fs::remove_file(&self.temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A link at the path is not followed.
        let mut out = BufWriter::new(File::create_new(&self.temporary)?);
        let written = write(&mut out).and_then(|()| out.into_inner()?.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&self.temporary);
            return Err(error);
        }
        fs::rename(&self.temporary, &self.path)?;
        self.directory.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_replaced_whole_by_one_export_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/page");
        fs::create_dir_all(&path).unwrap();
        let reader = File::open(&path).unwrap();
        reader.try_lock().unwrap();
        let file = PageFile::lock(&path).expect("a reader of the directory locks nobody out");
        assert_eq!(PageFile::lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        file.replace(|out| out.write_all(b"first")).unwrap();
        // Left by a process that was killed; a link is not followed.
        let other = directory.path().join("other");
        std::os::unix::fs::symlink(&other, path.join(TEMPORARY)).unwrap();
        let failed = file.replace(|out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no space"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no space");
        assert_eq!(fs::read(file.path()).unwrap(), b"first");
        file.replace(|out| out.write_all(b"second")).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"second");
        assert!(!other.exists());
        assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "the page and the lock");
    }
}
