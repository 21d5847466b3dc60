//! The port that workers dial.

use std::{io, net::SocketAddr, time::Duration};

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// When a silent connection is probed, and how often then: the original's metrics (CONTRACT IP06).
///
/// There is no `TCP_USER_TIMEOUT`: it would also end the connection of a worker that lives and only reads nothing for long, and with it
/// lose what the kernel has for it. A worker whose machine is gone costs a seat and its own queue until then, and when it comes back
/// its new connection takes over at once.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens at `address`. What is set here holds for all that is accepted.
///
/// # Errors
/// The port is taken, or the address is not this machine's; the text says what to do.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let try_listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of a former process that are not over yet do not keep us out; a listener does.
        socket.set_reuseaddr(true)?;
        socket.set_keepalive(true)?;
        socket.set_nodelay(true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    try_listen().map_err(|error| explained(&error, address))
}

/// Finds out whether workers can be listened for at `address`; needs no runtime.
///
/// # Errors
/// As [`listen`].
pub(super) fn probe(address: SocketAddr) -> io::Result<()> {
    // The standard library sets the same SO_REUSEADDR.
    std::net::TcpListener::bind(address).map(drop).map_err(|error| explained(&error, address))
}

fn explained(error: &io::Error, address: SocketAddr) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken: stop what listens there, or choose another port",
        io::ErrorKind::AddrNotAvailable => "no such address here: choose one of this machine, or 0.0.0.0",
        io::ErrorKind::PermissionDenied => "not allowed: choose a port above 1023",
        _ => "it failed: look at the address",
    };
    io::Error::new(error.kind(), format!("cannot listen for workers at {address}: {what} ({error})"))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn what_is_accepted_is_kept_alive_without_delay() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_dialled, (stream, _)) = (dialled.expect("connected"), accepted.expect("connected"));
        assert!(sockopt::socket_keepalive(&stream).expect("an option"));
        assert!(stream.nodelay().expect("an option"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("an option"), KEEPALIVE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).expect("an option"), KEEPALIVE);
        let error = listen(address).expect_err("taken");
        assert!(error.to_string().contains("the port is taken"), "{error}");
    }
}
