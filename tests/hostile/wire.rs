//! Connection of a hostile peer. Every call returns at the end of the attack.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// Timeout of one system call, to notice the end of the attack.
const SLICE: Duration = Duration::from_millis(50);

/// Maximum size of one read, bytes.
const READ_MAX: usize = 64 << 10;

/// TCP or unix socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

/// Connection with a deadline.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: Socket,
    until: Instant,
}

impl Wire {
    /// Wraps a connection.
    pub(crate) fn new(socket: Socket, until: Instant) -> io::Result<Self> {
        match &socket {
            Socket::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(SLICE))?;
                stream.set_write_timeout(Some(SLICE))?;
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(Some(SLICE))?;
                stream.set_write_timeout(Some(SLICE))?;
            }
        }
        Ok(Self { socket, until })
    }

    /// Reads at least one byte.
    pub(crate) fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; READ_MAX];
        let count = self.read_some(&mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Reads exactly `count` bytes.
    pub(crate) fn read_exact(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let mut at = 0;
        while at < count {
            at += self.read_some(&mut bytes[at..])?;
        }
        Ok(bytes)
    }

    /// Reads one line, with its end.
    pub(crate) fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            line.extend(self.read_exact(1)?);
        }
        Ok(line)
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = retried(self.until, || match &mut self.socket {
                Socket::Tcp(stream) => stream.write(bytes),
                Socket::Unix(stream) => stream.write(bytes),
            })?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Writes `piece` repeatedly until the peer closes or the attack ends.
    pub(crate) fn stream(&mut self, piece: &[u8]) -> io::Result<()> {
        let block = piece.repeat((READ_MAX / piece.len().max(1)).max(1));
        loop {
            self.write(&block)?;
        }
    }

    /// Reads and discards data until the peer closes or the attack ends.
    pub(crate) fn hold(&mut self) -> io::Result<()> {
        loop {
            self.read()?;
        }
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = retried(self.until, || match &mut self.socket {
            Socket::Tcp(stream) => stream.read(bytes),
            Socket::Unix(stream) => stream.read(bytes),
        })?;
        if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
    }
}

impl Drop for Wire {
    /// Closes the connection even if the socket was cloned.
    fn drop(&mut self) {
        // The connection may be closed already.
        let _ = match &self.socket {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

fn retried(until: Instant, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        match call() {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            other => return other,
        }
    }
}
