//! ZMTP 3.0 on blocking sockets without a library, for tests that need exact bytes and for fast sources and
//! sinks.

use std::{
    io::{self, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

/// Connection after its handshake.
#[derive(Debug)]
pub struct ZmtpPeer {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl ZmtpPeer {
    /// Connects to 127.0.0.1 as a socket of type `kind`, such as `DEALER`, with this identity.
    ///
    /// # Errors
    /// The connection fails, or the peer does not speak ZMTP.
    pub fn connect(port: u16, kind: &str, identity: &str) -> io::Result<Self> {
        Self::handshake(TcpStream::connect(("127.0.0.1", port))?, kind, identity)
    }

    /// Accepts the next connection as a socket of type `kind`, such as `PUSH`. Connections whose peer gave up
    /// waiting for the handshake are passed over: it connects again.
    ///
    /// # Errors
    /// The peer does not speak ZMTP.
    pub fn accept(listener: &TcpListener, kind: &str) -> io::Result<Self> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        loop {
            match Self::from_stream(listener.accept()?.0, kind) {
                Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) => {}
                accepted => return accepted,
            }
        }
    }

    /// Performs the handshake on an accepted connection as a socket of type `kind`.
    ///
    /// # Errors
    /// The peer does not speak ZMTP.
    pub fn from_stream(stream: TcpStream, kind: &str) -> io::Result<Self> {
        Self::handshake(stream, kind, "")
    }

    fn handshake(stream: TcpStream, kind: &str, identity: &str) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        let mut ready = b"\x05READY".to_vec();
        for (name, value) in [("Socket-Type", kind), ("Identity", identity)] {
            ready.push(name.len() as u8);
            ready.extend(name.as_bytes());
            ready.extend((value.len() as u32).to_be_bytes());
            ready.extend(value.as_bytes());
        }
        let mut peer =
            Self { reader: BufReader::with_capacity(1 << 18, stream.try_clone()?), writer: stream };
        peer.writer.write_all(&greeting)?;
        peer.writer.write_all(&[4, ready.len() as u8])?;
        peer.writer.write_all(&ready)?;
        peer.reader.read_exact(&mut greeting)?;
        let (flags, _) = peer.frame()?;
        if flags & 4 == 0 { Err(io::Error::other("no READY")) } else { Ok(peer) }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for (at, part) in parts.iter().enumerate() {
            let more = u8::from(at + 1 < parts.len());
            let mut head = vec![more | 2];
            head.extend((part.len() as u64).to_be_bytes());
            if let Ok(len) = u8::try_from(part.len()) {
                head = vec![more, len];
            }
            self.writer.write_all(&head)?;
            self.writer.write_all(part)?;
        }
        Ok(())
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    /// Receives the next message; commands are skipped.
    ///
    /// # Errors
    /// The connection is lost, or the read timed out.
    pub fn receive(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut parts = Vec::new();
        loop {
            let (flags, part) = self.frame()?;
            if flags & 4 != 0 {
                continue;
            }
            parts.push(part);
            if flags & 1 == 0 {
                return Ok(parts);
            }
        }
    }

    /// Sets the timeout of [`ZmtpPeer::receive`].
    ///
    /// # Errors
    /// The socket refuses the option.
    pub fn set_read_timeout(&self, longest: Duration) -> io::Result<()> {
        self.writer.set_read_timeout(Some(longest))
    }

    fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head)?;
        let mut len = u64::from(head[1]);
        if head[0] & 2 != 0 {
            let mut rest = [0; 8];
            rest[0] = head[1];
            self.reader.read_exact(&mut rest[1..])?;
            len = u64::from_be_bytes(rest);
        }
        let mut body = Vec::new();
        self.reader.by_ref().take(len).read_to_end(&mut body)?;
        if body.len() as u64 == len { Ok((head[0], body)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
