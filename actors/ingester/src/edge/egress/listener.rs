//! Listener of the workers' port.

use std::{io, net::SocketAddr, time::Duration};

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// Idle time and interval of keep-alive probes, as in the original (CONTRACT IP06).
///
/// `TCP_USER_TIMEOUT` is not set: it would also end the connection of a worker that is alive but
/// reads nothing for long. A worker whose machine is gone keeps its connection slot and queue until
/// the probes fail.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens at `address`. Accepted connections inherit the socket options.
///
/// # Errors
/// The port is in use, or the address is not local; the text says what to do.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let try_listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Allows binding while connections of a former process are closing.
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

/// Checks that `address` is free; needs no runtime.
///
/// # Errors
/// See [`listen`].
pub(super) fn probe(address: SocketAddr) -> io::Result<()> {
    // The standard library also sets SO_REUSEADDR.
    std::net::TcpListener::bind(address).map(drop).map_err(|error| explained(&error, address))
}

fn explained(error: &io::Error, address: SocketAddr) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use: stop the process that listens there, or choose another port"
        }
        io::ErrorKind::AddrNotAvailable => "not a local address: choose one of this machine, or 0.0.0.0",
        io::ErrorKind::PermissionDenied => "permission denied: choose a port above 1023",
        _ => "check the address",
    };
    io::Error::new(error.kind(), format!("cannot listen for workers at {address}: {what} ({error})"))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn accepted_sockets_have_keepalive_and_nodelay() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_dialled, (stream, _)) = (dialled.expect("connected"), accepted.expect("connected"));
        assert!(sockopt::socket_keepalive(&stream).expect("an option"));
        assert!(stream.nodelay().expect("an option"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("an option"), KEEPALIVE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).expect("an option"), KEEPALIVE);
        let error = listen(address).expect_err("taken");
        assert!(error.to_string().contains("the port is in use"), "{error}");
    }
}
