//! As much ZMTP 3.0 NULL as a bench needs, by hand over blocking sockets: it must cost less than what is
//! measured.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// Flags of a frame.
pub(super) const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Timeout of reads, writes and connects.
pub(super) const IO_TIMEOUT: Duration = Duration::from_secs(60);

/// The header of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) more: bool,
    /// Bytes of the header itself.
    pub(super) head: usize,
    /// Bytes of the body.
    pub(super) body: usize,
}

impl Head {
    /// The header that `bytes` begin with; None if it is not whole.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let flags = *bytes.first()?;
        let (head, body) = if flags & LONG == 0 {
            (2, usize::from(*bytes.get(1)?))
        } else {
            let long: [u8; 8] = bytes.get(1..9)?.try_into().ok()?;
            (9, usize::try_from(u64::from_be_bytes(long)).ok()?)
        };
        Some(Self { more: flags & MORE != 0, head, body })
    }
}

pub(super) fn put_head(out: &mut Vec<u8>, len: usize, more: bool) {
    let flags = if more { MORE } else { 0 };
    match u8::try_from(len) {
        Ok(short) => out.extend([flags, short]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((len as u64).to_be_bytes());
        }
    }
}

pub(super) fn put_frame(out: &mut Vec<u8>, body: &[u8], more: bool) {
    put_head(out, body.len(), more);
    out.extend(body);
}

/// Greets the peer; its identity.
pub(super) fn greet(stream: &mut TcpStream, socket_type: &str, identity: &str) -> Result<String> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut hello = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec();
    hello.resize(64, 0);
    let mut ready = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", socket_type), ("Identity", identity)] {
        ready.push(u8::try_from(name.len())?);
        ready.extend(name.as_bytes());
        ready.extend(u32::try_from(value.len())?.to_be_bytes());
        ready.extend(value.as_bytes());
    }
    hello.extend([COMMAND, u8::try_from(ready.len())?]);
    hello.extend(ready);
    stream.write_all(&hello)?;
    let mut theirs = [0; 64 + 2];
    stream.read_exact(&mut theirs).context("the peer's greeting")?;
    if theirs[64] != COMMAND {
        bail!("the peer begins with something else than READY");
    }
    let mut body = vec![0; usize::from(theirs[65])];
    stream.read_exact(&mut body).context("the peer's READY")?;
    property(&body, "Identity")
}

fn property(ready: &[u8], wanted: &str) -> Result<String> {
    let mut rest = ready.strip_prefix(b"\x05READY").context("the peer sends no READY")?;
    while let Some((&len, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(len)).context("a whole name")?;
        let (size, after) = after.split_first_chunk::<4>().context("a whole length")?;
        let (value, after) =
            after.split_at_checked(u32::from_be_bytes(*size) as usize).context("a whole value")?;
        if name.eq_ignore_ascii_case(wanted.as_bytes()) {
            return Ok(String::from_utf8(value.to_vec())?);
        }
        rest = after;
    }
    Ok(String::new())
}

/// Connects as soon as somebody listens there.
pub(super) fn dial(port: u16) -> Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return Ok(stream),
            Err(error) if begun.elapsed() > IO_TIMEOUT => return Err(error).context("no listener"),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The next connection.
pub(super) fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && begun.elapsed() < IO_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error).context("nobody connects"),
        }
    }
}
