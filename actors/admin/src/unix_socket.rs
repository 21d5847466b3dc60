//! The admin socket in the file system: mode 0600 from its first moment, a dead one replaced, its own removed at the end.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, fchmod},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with},
};

use crate::AdminError;

const BACKLOG: i32 = 128;

/// A listening socket; dropping it removes its file.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: another process may have put its own there since.
    identity: (u64, u64),
}

impl UnixSocket {
    pub(crate) fn open(path: &Path) -> Result<Self, AdminError> {
        make_way(path)?;
        Self::put(path).map_err(|source| AdminError::Unix { path: path.to_owned(), source })
    }

    /// Made under another name and renamed: nobody meets a socket that does not listen yet.
    fn put(path: &Path) -> io::Result<Self> {
        let draft = path.with_file_name(format!(".admin.{}", std::process::id()));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let fd = stream_socket(SocketFlags::CLOEXEC)?;
        // Linux gives the file the descriptor's mode, less the umask.
        fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        bind(&fd, &SocketAddrUnix::new(&draft)?)?;
        let settled = listen(&fd, BACKLOG).map_err(io::Error::from).and_then(|()| {
            // A path that is too long to be connected to would only show at the first client.
            SocketAddrUnix::new(path)?;
            let metadata = fs::symlink_metadata(&draft)?;
            fs::rename(&draft, path)?;
            Ok((metadata.dev(), metadata.ino()))
        });
        if settled.is_err() {
            let _ = fs::remove_file(&draft);
        }
        Ok(Self { listener: fd.into(), path: path.to_owned(), identity: settled? })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = ?self.path, %error, "cannot remove the admin socket");
        }
    }
}

/// Refuses a path that is somebody's; a socket that nobody listens on any more is replaced by the rename.
fn make_way(path: &Path) -> Result<(), AdminError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(AdminError::NotASocket(path.to_owned()));
    }
    if is_served(path) { Err(AdminError::InUse(path.to_owned())) } else { Ok(()) }
}

fn is_served(path: &Path) -> bool {
    // Non-blocking: a full backlog must not hang the start.
    let Ok(fd) = stream_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else {
        return false;
    };
    let Ok(address) = SocketAddrUnix::new(path) else {
        return false;
    };
    matches!(connect(&fd, &address), Ok(()) | Err(Errno::AGAIN | Errno::ACCESS))
}

fn stream_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt, net::UnixStream};

    use super::*;

    #[test]
    fn it_is_private_replaces_a_dead_one_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        let socket = UnixSocket::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_served_one_and_a_file_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let first = UnixSocket::open(&path).unwrap();
        assert!(matches!(UnixSocket::open(&path), Err(AdminError::InUse(_))));
        fs::rename(&path, dir.path().join("moved")).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(matches!(UnixSocket::open(&path), Err(AdminError::NotASocket(_))));
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_path_that_cannot_be_is_refused() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
        for path in [Path::new("/nonexistent/admin.sock"), &long] {
            let error = UnixSocket::open(path).unwrap_err().to_string();
            assert!(error.contains("admin.unix_socket"), "{error}");
        }
    }
}
