//! ZMTP over a TCP stream: the handshake, and a reader of messages. For what we dial and for what dials us; in NULL both sides do the same.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::{
    item::Parts,
    zmtp::{Command, Decoder, FrameLimits, GREETING_BYTES, Greeting, Incoming, Ready, SocketType, ZmtpError},
};

/// A peer that sends PINGs and does not take the PONGs is not answered any more beyond so many bytes.
const PONG_BYTES_MAX: usize = 4096;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The peer does not keep to ZMTP or to the limits, or refused us.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer closed in the middle of a greeting, handshake or message.
    #[error("the peer closed the connection in the middle of {0}")]
    CutOff(&'static str),
    /// The handshake was not over in time.
    #[error("the peer did not finish the handshake within {} ms: is it a ZeroMQ socket?", .0.as_millis())]
    TooSlow(Duration),
}

/// What our side of a connection is.
#[derive(Debug, Clone)]
pub struct Local {
    /// Our socket type.
    pub socket_type: SocketType,
    /// Our identity; empty for none.
    pub identity: Bytes,
    /// What the peer may send after the handshake.
    pub limits: FrameLimits,
    /// How much is read at once where messages are small, bytes: 256 KiB for a source, little for a peer that hardly sends.
    pub block_bytes: usize,
    /// How long the handshake may take.
    pub deadline: Duration,
}

/// A connection that is ready for messages.
#[derive(Debug)]
pub struct Connection {
    /// What the peer told of itself.
    pub peer: Ready,
    /// Its messages. Some may be buffered in it already.
    pub reader: MessageReader<OwnedReadHalf>,
    /// Where ours go.
    pub writer: OwnedWriteHalf,
}

impl Connection {
    /// The same, with its readiness waited for by the runtime that this is called in.
    ///
    /// # Errors
    /// The runtime does not take it; the connection is gone.
    pub fn moved_here(self) -> io::Result<Self> {
        let Self { peer, reader, writer } = self;
        let stream = reader.read.reunite(writer).map_err(io::Error::other)?;
        let (read, writer) = TcpStream::from_std(stream.into_std()?)?.into_split();
        Ok(Self { peer, reader: MessageReader { read, ..reader }, writer })
    }
}

/// Greets the peer over a new connection. A SUB then still has to subscribe: write a [`subscription`](crate::zmtp::subscription).
///
/// A peer whose socket type does not fit is told so before it is refused. Sets TCP_NODELAY.
///
/// # Errors
/// The peer does not keep to ZMTP 3 NULL, does not fit, goes, or is slower than the deadline.
pub async fn handshake(stream: TcpStream, local: &Local) -> Result<Connection, StreamError> {
    timeout(local.deadline, greet(stream, local)).await.map_err(|_| StreamError::TooSlow(local.deadline))?
}

async fn greet(stream: TcpStream, local: &Local) -> Result<Connection, StreamError> {
    stream.set_nodelay(true)?;
    let (mut read, mut writer) = stream.into_split();
    // Both at once: nothing in 3.0 makes us wait for the peer's version, and the peer may wait for all of ours.
    let opening = [&Greeting::OURS[..], &Ready::encode(local.socket_type, &local.identity)].concat();
    writer.write_all(&opening).await?;
    read_greeting(&mut read).await?;
    let mut reader = MessageReader::new(read, local.limits, local.block_bytes);
    let peer = loop {
        match reader.next().await?.ok_or(StreamError::CutOff("its handshake"))? {
            Incoming::Command(body) => match Command::decode(body)? {
                Command::Ready(ready) => break ready,
                Command::Error(reason) => return Err(ZmtpError::Refused(reason).into()),
                Command::Ping(_) | Command::Pong(_) | Command::Other(_) => {}
            },
            Incoming::Message(_) => return Err(ZmtpError::TooEarly.into()),
        }
    };
    if let Err(error) = peer.check_fits(local.socket_type) {
        // It is refused whether or not it takes the reason.
        let _ = writer.write_all(&Command::error(&error.to_string())).await;
        return Err(error.into());
    }
    reader.decoder.open();
    Ok(Connection { peer, reader, writer })
}

async fn read_greeting(read: &mut OwnedReadHalf) -> Result<Greeting, StreamError> {
    let mut bytes = [0; GREETING_BYTES];
    let mut filled = 0;
    loop {
        match read.read(&mut bytes[filled..]).await? {
            0 => return Err(StreamError::CutOff("its greeting")),
            count => filled += count,
        }
        if let Some(greeting) = Greeting::decode(&bytes[..filled])? {
            return Ok(greeting);
        }
    }
}

/// Reads messages: many small ones with one system call, a long frame straight to where it stays.
#[derive(Debug)]
pub struct MessageReader<R> {
    read: R,
    decoder: Decoder,
    /// What [`MessageReader::buffered`] came upon that is no message.
    found: Option<Result<Incoming, ZmtpError>>,
    pongs: BytesMut,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    fn new(read: R, limits: FrameLimits, block_bytes: usize) -> Self {
        Self {
            read,
            decoder: Decoder::for_handshake(limits, block_bytes),
            found: None,
            pongs: BytesMut::new(),
        }
    }

    /// What it reads from, and the bytes and state so far.
    pub fn into_parts(self) -> (R, Decoder) {
        (self.read, self.decoder)
    }

    /// The next message or command; None after the peer closed between two messages. What was read before an error came first.
    /// May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// The peer does not keep to ZMTP or to the limits, or the connection failed. Do not go on then.
    pub async fn next(&mut self) -> Result<Option<Incoming>, StreamError> {
        read_next(&mut self.read, &mut self.decoder).await
    }

    /// Waits until nobody has anything of the last long frame any more; at once if there was none.
    pub async fn last_is_released(&self) {
        self.decoder.last_is_released().await;
    }

    /// The next message if it is read already, and nothing but messages is before it.
    pub fn buffered(&mut self) -> Option<Parts> {
        if self.found.is_some() {
            return None;
        }
        match self.decoder.next().transpose()? {
            Ok(Incoming::Message(parts)) => Some(parts),
            other => {
                self.found = Some(other);
                None
            }
        }
    }

    /// The next message; commands are dealt with: PINGs are answered through `writer`, others are ignored. None after the peer closed
    /// between two messages. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// As [`MessageReader::next`], or the peer sent an ERROR.
    pub async fn next_message(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Option<Parts>, StreamError> {
        loop {
            let incoming = if let Some(found) = self.found.take() {
                Some(found?)
            } else if self.pongs.is_empty() {
                self.next().await?
            } else {
                tokio::select! {
                    biased;
                    written = writer.write(&self.pongs) => {
                        self.pongs.advance(written?);
                        continue;
                    }
                    incoming = read_next(&mut self.read, &mut self.decoder) => incoming?,
                }
            };
            match incoming {
                None => return Ok(None),
                Some(Incoming::Message(parts)) => return Ok(Some(parts)),
                Some(Incoming::Command(body)) => match Command::decode(body)? {
                    Command::Ping(context) if self.pongs.len() < PONG_BYTES_MAX => {
                        self.pongs.extend_from_slice(&Command::pong(&context));
                    }
                    Command::Error(reason) => return Err(ZmtpError::Refused(reason).into()),
                    _ => {}
                },
            }
        }
    }
}

async fn read_next(
    read: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
) -> Result<Option<Incoming>, StreamError> {
    loop {
        if let Some(incoming) = decoder.next()? {
            return Ok(Some(incoming));
        }
        if read.read_buf(&mut decoder.space()).await? == 0 {
            return if decoder.is_idle() { Ok(None) } else { Err(StreamError::CutOff("a message")) };
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::zmtp::{encode_message, subscription};

    const LIMITS: FrameLimits = FrameLimits { frame_max: 1 << 23, message_max: 1 << 23, parts_max: 8 };

    fn local(socket_type: SocketType) -> Local {
        Local {
            socket_type,
            identity: Bytes::from_static(b"me"),
            limits: LIMITS,
            block_bytes: 1 << 16,
            deadline: Duration::from_secs(10),
        }
    }

    /// A connection of ours, and the other end of it.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (dialled.expect("a connection"), accepted.expect("a connection").0)
    }

    /// What a libzmq socket of the type `name` says first.
    fn opening(name: &str, identity: &str) -> Vec<u8> {
        let mut bytes = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01NULL".to_vec();
        bytes.resize(GREETING_BYTES, 0);
        let ready = [
            b"\x05READY\x0bSocket-Type\0\0\0",
            &[name.len() as u8][..],
            name.as_bytes(),
            b"\x08Identity\0\0\0",
            &[identity.len() as u8],
            identity.as_bytes(),
        ]
        .concat();
        bytes.extend([4, ready.len() as u8]);
        bytes.extend(ready);
        bytes
    }

    #[tokio::test]
    async fn a_peer_is_greeted_and_its_messages_are_read() {
        let (ours, mut theirs) = pair().await;
        let big = Bytes::from((0..5_000_000_u32).map(|n| n as u8).collect::<Vec<_>>());
        let messages =
            [vec![Bytes::from_static(b"small"), Bytes::new()], vec![big.clone(), Bytes::from_static(b"x")]];
        let mut wire = opening("PUSH", "p");
        wire.extend_from_slice(b"\x04\x09\x04PING\0\x0ahi");
        messages.iter().for_each(|message| encode_message(message, &mut wire));
        let reading = async {
            let mut connection = handshake(ours, &local(SocketType::Pull)).await.expect("a handshake");
            assert_eq!(
                (&connection.peer.socket_type[..], &connection.peer.identity[..]),
                ("PUSH", &b"p"[..])
            );
            for message in &messages {
                let read = connection.reader.next_message(&mut connection.writer).await.expect("no error");
                assert_eq!(read.as_deref(), Some(&message[..]));
            }
            let end = connection.reader.next_message(&mut connection.writer).await;
            assert!(matches!(end, Ok(None)), "{end:?}");
        };
        let writing = async {
            theirs.write_all(&wire).await.expect("room");
            let mut answer = vec![0; GREETING_BYTES + 2 + 0x29 + 2 + 7];
            theirs.read_exact(&mut answer).await.expect("greeting, READY and PONG");
            assert!(answer.ends_with(b"\x04\x07\x04PONGhi"), "{}", answer.escape_ascii());
            theirs.shutdown().await.expect("an open connection");
        };
        tokio::join!(reading, writing);
    }

    #[tokio::test]
    async fn a_socket_that_does_not_fit_is_told_so() {
        let (ours, mut theirs) = pair().await;
        theirs.write_all(&opening("PUB", "")).await.expect("room");
        let error = handshake(ours, &local(SocketType::Router)).await.expect_err("a PUB");
        assert!(error.to_string().contains("connect a DEALER"), "{error}");
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.expect("all of it");
        assert!(answer.escape_ascii().to_string().contains("ERROR"), "{}", answer.escape_ascii());
    }

    #[tokio::test]
    async fn a_message_before_ready_and_other_greetings_are_refused() {
        for (bytes, text) in [
            ([&Greeting::OURS[..], b"\0\x01a"].concat(), "before its READY"),
            (b"GET / HTTP/1.1\r\n".to_vec(), "no ZMTP signature"),
            ([&Greeting::OURS[..12], b"CURVE", &[0; 47]].concat(), "`CURVE`"),
            ([&Greeting::OURS[..], b"\x04\x09\x05ERROR\x02no"].concat(), "refused the connection: no"),
            ([&Greeting::OURS[..], b"\x06\0\0\x01\0\0\0\0\0"].concat(), "1099511627776 bytes"),
        ] {
            let (ours, mut theirs) = pair().await;
            theirs.write_all(&bytes).await.expect("room");
            let error = handshake(ours, &local(SocketType::Sub)).await.expect_err("refused");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_left() {
        let (ours, _theirs) = pair().await;
        let error =
            handshake(ours, &Local { deadline: Duration::from_millis(20), ..local(SocketType::Router) })
                .await
                .expect_err("too slow");
        assert!(matches!(error, StreamError::TooSlow(_)), "{error}");
    }

    #[tokio::test]
    async fn a_subscription_follows_the_handshake() {
        let (ours, mut theirs) = pair().await;
        theirs.write_all(&opening("XPUB", "")).await.expect("room");
        let mut connection = handshake(ours, &local(SocketType::Sub)).await.expect("a handshake");
        connection.writer.write_all(&subscription(b"")).await.expect("room");
        drop(connection);
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.expect("all of it");
        assert!(answer.ends_with(b"\0\x01\x01"), "{}", answer.escape_ascii());
    }
}
