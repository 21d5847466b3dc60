//! Finds the file behind a name of the input directory, and decides which symbolic links are followed
//! (CONTRACT QR52).
//!
//! Otherwise a program that may write into the input directory could link a file there that only this process
//! can read. Its lines would become jobs.

use std::{ffi::OsString, fs::File, os::fd::OwnedFd, os::unix::ffi::OsStringExt, path::Path};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat},
    io::Errno,
    process::geteuid,
};

/// Maximum number of links on the way to a file, as in the kernel.
const LINKS_MAX: usize = 40;

/// File that a name refers to, not opened yet.
#[derive(Debug)]
pub(super) struct Target {
    directory: OwnedFd,
    name: OsString,
    pub(super) stat: Stat,
    /// Owners of the links on the way, without root and this process's user.
    owners: Vec<u32>,
}

/// A link that is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a symbolic link of uid {link} to a file of uid {file}")]
pub(super) struct RefusedLink {
    /// Owner of the link.
    link: u32,
    /// Owner of the file.
    file: u32,
}

impl Target {
    /// Finds the file at `path`, whose directory is trusted. Each link is read through a descriptor, so its
    /// owner and its text belong together.
    pub(super) fn find(path: &Path) -> rustix::io::Result<Self> {
        const FIND: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let start = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut directory = openat(CWD, start, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut left = vec![path.file_name().unwrap_or_default().to_owned()];
        let (mut owners, mut links) = (Vec::new(), 0);
        while let Some(name) = left.pop() {
            let found = openat(&directory, &name, FIND, Mode::empty())?;
            let stat = fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
                    owners.push(stat.st_uid);
                }
                let text = readlinkat(&found, "", Vec::new())?.into_bytes();
                if text.starts_with(b"/") {
                    directory = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                }
                let parts = text.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
                left.extend(parts.rev().map(|part| OsString::from_vec(part.to_vec())));
                if left.is_empty() {
                    left.push(".".into());
                }
            } else if left.is_empty() {
                return Ok(Self { directory, name, stat, owners });
            } else {
                directory = found;
            }
        }
        Err(Errno::NOENT)
    }

    /// Returns the link that is not followed to a file of `owner`.
    fn refused(&self, owner: u32) -> Option<RefusedLink> {
        self.owners.iter().find(|link| **link != owner).map(|&link| RefusedLink { link, file: owner })
    }

    /// Checks the links on the way.
    pub(super) fn check(&self) -> Result<(), RefusedLink> {
        self.refused(self.stat.st_uid).map_or(Ok(()), Err)
    }

    /// Opens the file for reading, without waiting for the writer of a FIFO. Returns None if the name has
    /// been given to another file since, and the links may not lead to that one.
    pub(super) fn open(&self) -> rustix::io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.directory, &self.name, flags, Mode::empty())?;
        let owner = fstat(&opened)?.st_uid;
        Ok(self.refused(owner).is_none().then(|| opened.into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// Target with links of these owners, to a file of `file`.
    fn target(directory: &Path, owners: &[u32], file: u32) -> Target {
        let mut target = Target::find(&directory.join("file")).unwrap();
        target.owners = owners.to_vec();
        target.stat.st_uid = file;
        target
    }

    #[test]
    fn r52_each_link_belongs_to_the_owner_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let (alice, bob) = (4_001, 4_002);
        for (owners, file, refused) in [
            (&[][..], 0, None),
            (&[bob], bob, None),
            (&[bob, bob], bob, None),
            (&[bob], 0, Some((bob, 0))),
            (&[bob], alice, Some((bob, alice))),
            (&[bob, alice], bob, Some((alice, bob))),
        ] {
            let checked = target(directory.path(), owners, file).check();
            let refused = refused.map(|(link, file)| RefusedLink { link, file });
            assert_eq!(checked.err(), refused, "{owners:?} to {file}");
        }
        // The owner of the opened file counts, which may be another one by now.
        let other = geteuid().as_raw() + 1;
        assert!(target(directory.path(), &[other], other).open().unwrap().is_none());
        assert!(target(directory.path(), &[geteuid().as_raw()], other).open().unwrap().is_some());
    }

    #[test]
    fn a_name_leads_to_the_same_file_as_for_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/file"), "text").unwrap();
        for (name, text) in [
            ("relative", "a/./b/..//file"),
            ("absolute", path("a/file").to_str().unwrap()),
            ("through", "directory/../file"),
            ("chain", "relative"),
        ] {
            symlink(text, path(name)).unwrap();
        }
        symlink("a/b", path("directory")).unwrap();
        symlink("/", path("root")).unwrap();
        for name in ["a/file", "relative", "absolute", "through", "chain", "directory", "root"] {
            let found = Target::find(&path(name)).unwrap();
            let wanted = rustix::fs::stat(path(name)).unwrap();
            assert_eq!((found.stat.st_dev, found.stat.st_ino), (wanted.st_dev, wanted.st_ino), "{name}");
            assert_eq!(found.check(), Ok(()), "{name}");
        }
        symlink("loop", path("loop")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        symlink("a/file/below", path("below")).unwrap();
        for (name, error) in
            [("loop", Errno::LOOP), ("dangling", Errno::NOENT), ("below", Errno::NOTDIR), ("x", Errno::NOENT)]
        {
            assert_eq!(Target::find(&path(name)).unwrap_err(), error, "{name}");
        }
        // A link that takes the place of the file is not followed.
        let found = Target::find(&path("a/file")).unwrap();
        fs::remove_file(path("a/file")).unwrap();
        symlink("/etc/hostname", path("a/file")).unwrap();
        assert_eq!(found.open().unwrap_err(), Errno::LOOP);
    }
}
