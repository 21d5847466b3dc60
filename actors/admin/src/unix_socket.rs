//! The admin socket in the file system. By default its mode is 0600. It replaces a socket without a listener,
//! and is removed at the end.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use orchestrator_edge::{SocketAccess, SocketListener};
use rustix::{
    fs::{Mode, fchmod},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen, socket_with},
};

use crate::AdminError;

/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 128;

/// A listening socket; dropping it removes its file.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode. Another process may have replaced the file.
    identity: (u64, u64),
}

impl UnixSocket {
    /// Creates the socket and listens on it.
    ///
    /// # Errors
    /// Another process listens on `path`, or the socket cannot be created.
    pub(crate) fn open(path: &Path, access: SocketAccess) -> Result<Self, AdminError> {
        check_path(path)?;
        Self::bind(path, access).map_err(|source| AdminError::Unix { path: path.to_owned(), source })
    }

    /// Binds a temporary path and renames it, so that no client sees a socket that does not listen yet.
    fn bind(path: &Path, access: SocketAccess) -> io::Result<Self> {
        let temporary = path.with_file_name(format!(".admin.{}", std::process::id()));
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // On Linux, the file gets the mode of the descriptor, less the umask.
        fchmod(&fd, access.mode().unwrap_or(Mode::RUSR | Mode::WUSR))?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(&temporary)?)?;
        let identity = listen(&fd, BACKLOG).map_err(io::Error::from).and_then(|()| {
            // The path may be too long for clients to connect.
            SocketAddrUnix::new(path)?;
            access.apply(&temporary)?;
            let metadata = fs::symlink_metadata(&temporary)?;
            fs::rename(&temporary, path)?;
            Ok((metadata.dev(), metadata.ino()))
        });
        if identity.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        Ok(Self { listener: fd.into(), path: path.to_owned(), identity: identity? })
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

/// Refuses a path with another file or with a socket that has a listener. Another socket is replaced by the
/// rename.
fn check_path(path: &Path) -> Result<(), AdminError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(AdminError::NotASocket(path.to_owned()));
    }
    if SocketListener::at(path).is_some() { Err(AdminError::InUse(path.to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt, net::UnixStream};

    use super::*;

    #[test]
    fn a_socket_is_private_replaces_an_unused_one_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        let socket = UnixSocket::open(&path, SocketAccess::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn mode_and_group_are_those_of_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let own = rustix::process::getegid().as_raw().to_string();
        let access = SocketAccess::new("admin.unix_socket", Some("0666"), None, Some(&own)).unwrap();
        let socket = UnixSocket::open(&path, access).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.gid().to_string()), (0o666, own));
        drop(socket);
        let no_user = SocketAccess::new("admin.unix_socket", None, Some("4294967294"), None).unwrap();
        // Only root can give the socket away; a failure leaves no file.
        assert_eq!(UnixSocket::open(&path, no_user).is_ok(), rustix::process::geteuid().is_root());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_used_socket_and_a_file_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let first = UnixSocket::open(&path, SocketAccess::default()).unwrap();
        assert!(matches!(UnixSocket::open(&path, SocketAccess::default()), Err(AdminError::InUse(_))));
        fs::rename(&path, dir.path().join("moved")).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(matches!(UnixSocket::open(&path, SocketAccess::default()), Err(AdminError::NotASocket(_))));
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn an_invalid_path_is_refused() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
        for path in [Path::new("/nonexistent/admin.sock"), &long] {
            let error = UnixSocket::open(path, SocketAccess::default()).unwrap_err().to_string();
            assert!(error.contains("admin.unix_socket"), "{error}");
        }
    }
}
