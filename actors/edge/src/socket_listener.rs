//! Listener at a Unix socket, without a connection that it would serve.

use std::path::Path;

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::socket_peercred,
    },
};

/// Process that listens at a Unix socket, as far as an attempt to connect shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketListener {
    /// It belongs to this user.
    Of(u32),
    /// Its backlog is full.
    Busy,
    /// The caller may not connect, so there may also be no process.
    Denied,
}

impl SocketListener {
    /// None if there is no listener at `path`. Never blocks.
    pub fn at(path: &Path) -> Option<Self> {
        // A full backlog would block.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        match connect(&socket, &SocketAddrUnix::new(path).ok()?) {
            Ok(()) => Some(socket_peercred(&socket).map_or(Self::Denied, |peer| Self::Of(peer.uid.as_raw()))),
            Err(Errno::AGAIN) => Some(Self::Busy),
            Err(Errno::ACCESS) => Some(Self::Denied),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use rustix::{
        net::{bind, listen},
        process::geteuid,
    };

    use super::*;

    #[test]
    fn a_listener_is_told_by_its_user_or_its_full_backlog() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert_eq!(SocketListener::at(&path), None, "it does not listen yet");
        listen(&socket, 0).unwrap();
        assert_eq!(SocketListener::at(&path), Some(SocketListener::Of(geteuid().as_raw())));
        // The closed connection of the attempt takes the only place.
        assert_eq!(SocketListener::at(&path), Some(SocketListener::Busy));
        let listener = UnixListener::from(socket);
        listener.accept().unwrap();
        let _held = UnixStream::connect(&path).unwrap();
        assert_eq!(SocketListener::at(&path), Some(SocketListener::Busy));
        for path in
            [directory.path(), &directory.path().join("none"), &directory.path().join("x".repeat(200))]
        {
            assert_eq!(SocketListener::at(path), None, "{path:?}");
        }
    }
}
