//! The listening socket and its file.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use orchestrator_edge::{SocketAccess, SocketListener};
use rustix::fs::fchmod;
use tokio::{
    net::{UnixListener, UnixSocket, UnixStream},
    time::timeout,
};

use crate::edge::error::EdgeError;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 4096;

/// Time limit of a connect to another process's socket; a live owner accepts into its backlog by
/// then.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A listening socket. On drop it removes its file, unless another file has taken its path.
#[derive(Debug)]
pub(crate) struct WorkerListener {
    listener: UnixListener,
    path: PathBuf,
    access: SocketAccess,
    inode: (u64, u64),
}

impl WorkerListener {
    /// Binds `path` with `access`; by default with mode 0777 without the bits of the umask. A socket without
    /// a listener is replaced (CONTRACT QP12). Must be called on a tokio runtime.
    ///
    /// # Errors
    /// If another process listens there, if the path is another kind of file, or if the operating
    /// system refuses.
    pub(crate) async fn bind(path: &Path, access: SocketAccess) -> Result<Self, EdgeError> {
        clear(path).await?;
        let bind = || {
            let socket = UnixSocket::new_stream()?;
            if let Some(mode) = access.mode() {
                // On Linux, the file gets the mode of the descriptor, less the umask.
                fchmod(&socket, mode)?;
            }
            socket.bind(path)?;
            access.apply(path)?;
            let listener = socket.listen(BACKLOG)?;
            Ok((listener, inode(path)?))
        };
        let (listener, inode) = bind().map_err(EdgeError::refused("bind worker socket", path))?;
        Ok(Self { listener, path: path.to_owned(), access, inode })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn access(&self) -> SocketAccess {
        self.access
    }

    /// Returns true if the path still refers to this socket, or if that cannot be checked.
    pub(super) fn is_current(&self) -> bool {
        match inode(&self.path) {
            Ok(inode) => inode == self.inode,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for WorkerListener {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = ?self.path, %error, "cannot remove the worker socket");
        }
    }
}

/// Checks for errors that no restart can fix: another kind of file at `path`, or another process
/// that listens there (CONTRACT QP12). Never blocks.
///
/// # Errors
/// [`EdgeError::NotASocket`], [`EdgeError::SocketInUse`].
pub(crate) fn check(path: &Path) -> Result<(), EdgeError> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(EdgeError::NotASocket { path: path.to_owned() });
    }
    match SocketListener::at(path) {
        Some(SocketListener::Of(_) | SocketListener::Busy) => {
            Err(EdgeError::SocketInUse { path: path.to_owned() })
        }
        Some(SocketListener::Denied) | None => Ok(()),
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// Makes the path free. Removes nothing but a socket without a listener.
async fn clear(path: &Path) -> Result<(), EdgeError> {
    let kind = match fs::symlink_metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(EdgeError::refused("check worker socket", path)(error)),
    };
    if !kind.is_socket() {
        return Err(EdgeError::NotASocket { path: path.to_owned() });
    }
    match timeout(PROBE_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(EdgeError::refused("replace stale worker socket", path))
        }
        Ok(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
            Err(EdgeError::refused("probe worker socket", path)(error))
        }
        // It answered, its backlog is full or it is slow: another process serves it.
        _ => Err(EdgeError::SocketInUse { path: path.to_owned() }),
    }
}
