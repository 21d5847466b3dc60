//! ZMTP over TCP: the handshake and a reader of messages, for outgoing and incoming connections.
//! With NULL security both sides do the same.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use orchestrator_ingester_zmtp::{
    Command, Decoder, FrameLimits, GREETING_BYTES, Greeting, Incoming, Ready, SocketType, ZmtpError,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use crate::item::Parts;

/// Most pending PONG bytes of a peer that does not read.
const PONG_BYTES_MAX: usize = 4096;

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The peer violated ZMTP or the limits, or refused the connection.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer closed in the middle of a greeting, handshake or message.
    #[error("the peer closed the connection in the middle of {0}")]
    CutOff(&'static str),
    /// The handshake timed out.
    #[error("the peer did not complete the handshake within {} ms: check that it is a ZeroMQ socket", .0.as_millis())]
    TooSlow(Duration),
}

/// Options of the local side of a connection.
#[derive(Debug, Clone)]
pub(crate) struct HandshakeOptions {
    /// Socket type.
    pub socket_type: SocketType,
    /// Identity; empty for none.
    pub identity: Bytes,
    /// Limits of the peer's messages after the handshake.
    pub limits: FrameLimits,
    /// Bytes of one read of small messages: 256 KiB for a source, little for a peer that rarely
    /// sends.
    pub block_bytes: usize,
    /// Time-out of the handshake.
    pub deadline: Duration,
}

/// A connection after the handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    /// READY of the peer.
    pub peer: Ready,
    /// Reader of messages; some may already be buffered.
    pub reader: MessageReader<OwnedReadHalf>,
    /// Writer.
    pub writer: OwnedWriteHalf,
}

impl Connection {
    /// Registers the connection with the current runtime.
    ///
    /// # Errors
    /// The runtime refuses it; the connection is closed.
    pub(crate) fn reregister(self) -> io::Result<Self> {
        let Self { peer, reader, writer } = self;
        let stream = reader.read.reunite(writer).map_err(io::Error::other)?;
        let (read, writer) = TcpStream::from_std(stream.into_std()?)?.into_split();
        Ok(Self { peer, reader: MessageReader { read, ..reader }, writer })
    }
}

/// Performs the handshake over a new connection and sets TCP_NODELAY. A SUB must then subscribe:
/// write a [`subscription`](orchestrator_ingester_zmtp::subscription).
///
/// A peer with an incompatible socket type gets an ERROR before it is refused.
///
/// # Errors
/// The peer violates ZMTP 3 NULL, is incompatible, disconnects, or exceeds the time-out.
pub(crate) async fn handshake(
    stream: TcpStream,
    options: &HandshakeOptions,
) -> Result<Connection, StreamError> {
    timeout(options.deadline, greet(stream, options))
        .await
        .map_err(|_| StreamError::TooSlow(options.deadline))?
}

async fn greet(stream: TcpStream, options: &HandshakeOptions) -> Result<Connection, StreamError> {
    stream.set_nodelay(true)?;
    let (mut read, mut writer) = stream.into_split();
    // Greeting and READY are sent at once: 3.0 does not depend on the peer's version, and the peer
    // may wait for both.
    let opening = [&Greeting::OURS[..], &Ready::encode(options.socket_type, &options.identity)].concat();
    writer.write_all(&opening).await?;
    read_greeting(&mut read).await?;
    let mut reader = MessageReader::new(read, options.limits, options.block_bytes);
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
    if let Err(error) = peer.check_fits(options.socket_type) {
        // The peer is refused even if it does not take the reason.
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

/// Reader of messages: many small ones with one system call, a long frame directly into its final
/// buffer.
#[derive(Debug)]
pub(crate) struct MessageReader<R> {
    read: R,
    decoder: Decoder,
    /// Non-message that [`MessageReader::buffered`] has decoded.
    pending: Option<Result<Incoming, ZmtpError>>,
    pongs: BytesMut,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    fn new(read: R, limits: FrameLimits, block_bytes: usize) -> Self {
        Self {
            read,
            decoder: Decoder::for_handshake(limits, block_bytes),
            pending: None,
            pongs: BytesMut::new(),
        }
    }

    /// Reader of messages from a peer that makes no handshake.
    pub(crate) fn without_handshake(read: R, limits: FrameLimits, block_bytes: usize) -> Self {
        let mut reader = Self::new(read, limits, block_bytes);
        reader.decoder.open();
        reader
    }

    /// The decoder keeps the buffered bytes.
    pub(crate) fn into_parts(self) -> (R, Decoder) {
        (self.read, self.decoder)
    }

    /// Next message or command; None after the peer closed between two messages. Cancel-safe.
    ///
    /// # Errors
    /// The peer violates ZMTP or the limits, or the connection failed. Do not read on then.
    pub(crate) async fn next(&mut self) -> Result<Option<Incoming>, StreamError> {
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending?));
        }
        read_next(&mut self.read, &mut self.decoder).await
    }

    /// Waits until all references to the last long frame are dropped.
    pub(crate) async fn last_is_released(&self) {
        self.decoder.last_is_released().await;
    }

    /// Next message if it is already buffered and no command precedes it.
    pub(crate) fn buffered(&mut self) -> Option<Parts> {
        if self.pending.is_some() {
            return None;
        }
        match self.decoder.decode().transpose()? {
            Ok(Incoming::Message(parts)) => Some(parts),
            other => {
                self.pending = Some(other);
                None
            }
        }
    }

    /// Next message. PINGs are answered through `writer`, other commands ignored. None after the
    /// peer closed between two messages. Cancel-safe.
    ///
    /// # Errors
    /// As [`MessageReader::next`], or the peer sent an ERROR.
    pub(crate) async fn next_message(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Option<Parts>, StreamError> {
        loop {
            let incoming = if self.pongs.is_empty() || self.pending.is_some() {
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
        if let Some(incoming) = decoder.decode()? {
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
    use orchestrator_ingester_zmtp::{encode_message, subscription};

    const LIMITS: FrameLimits = FrameLimits { frame_max: 1 << 23, message_max: 1 << 23, parts_max: 8 };

    fn options(socket_type: SocketType) -> HandshakeOptions {
        HandshakeOptions {
            socket_type,
            identity: Bytes::from_static(b"me"),
            limits: LIMITS,
            block_bytes: 1 << 16,
            deadline: Duration::from_secs(10),
        }
    }

    /// Both ends of a connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (dialled.expect("a connection"), accepted.expect("a connection").0)
    }

    /// Greeting and READY of a libzmq socket of the type `name`.
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
            let mut connection = handshake(ours, &options(SocketType::Pull)).await.expect("a handshake");
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
    async fn a_command_between_buffered_messages_is_returned_in_order() {
        let mut wire = Vec::new();
        let messages = [1, 2, 3].map(|n: u8| Incoming::Message([Bytes::from(vec![n])].into_iter().collect()));
        for (n, message) in [1, 2, 3].into_iter().zip(&messages) {
            let Incoming::Message(parts) = message else { panic!("messages") };
            encode_message(parts, &mut wire);
            if n == 2 {
                wire.extend_from_slice(&Command::pong(b"x"));
            }
        }
        let mut reader = MessageReader::without_handshake(&wire[..], LIMITS, 1 << 16);
        assert_eq!(reader.next().await.expect("valid").as_ref(), Some(&messages[0]));
        assert_eq!(reader.buffered().map(Incoming::Message).as_ref(), Some(&messages[1]));
        assert_eq!(reader.buffered(), None, "a command is not a message");
        assert!(matches!(reader.next().await, Ok(Some(Incoming::Command(_)))));
        assert_eq!(reader.buffered().map(Incoming::Message).as_ref(), Some(&messages[2]));
        assert!(matches!(reader.next().await, Ok(None)));
    }

    #[tokio::test]
    async fn an_incompatible_socket_gets_an_error_command() {
        let (ours, mut theirs) = pair().await;
        theirs.write_all(&opening("PUB", "")).await.expect("room");
        let error = handshake(ours, &options(SocketType::Router)).await.expect_err("a PUB");
        assert!(error.to_string().contains("connect a DEALER"), "{error}");
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.expect("all of it");
        assert!(answer.escape_ascii().to_string().contains("ERROR"), "{}", answer.escape_ascii());
    }

    #[tokio::test]
    async fn a_message_before_ready_and_other_greetings_are_refused() {
        for (bytes, text) in [
            ([&Greeting::OURS[..], b"\0\x01a"].concat(), "before its READY"),
            (b"GET / HTTP/1.1\r\n".to_vec(), "not a ZMTP signature"),
            ([&Greeting::OURS[..12], b"CURVE", &[0; 47]].concat(), "`CURVE`"),
            ([&Greeting::OURS[..], b"\x04\x09\x05ERROR\x02no"].concat(), "refused the connection: no"),
            ([&Greeting::OURS[..], b"\x06\0\0\x01\0\0\0\0\0"].concat(), "1099511627776 bytes"),
        ] {
            let (ours, mut theirs) = pair().await;
            theirs.write_all(&bytes).await.expect("room");
            let error = handshake(ours, &options(SocketType::Sub)).await.expect_err("refused");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[tokio::test]
    async fn a_silent_peer_times_out() {
        let (ours, _theirs) = pair().await;
        let error = handshake(
            ours,
            &HandshakeOptions { deadline: Duration::from_millis(20), ..options(SocketType::Router) },
        )
        .await
        .expect_err("too slow");
        assert!(matches!(error, StreamError::TooSlow(_)), "{error}");
    }

    #[tokio::test]
    async fn a_subscription_follows_the_handshake() {
        let (ours, mut theirs) = pair().await;
        theirs.write_all(&opening("XPUB", "")).await.expect("room");
        let mut connection = handshake(ours, &options(SocketType::Sub)).await.expect("a handshake");
        connection.writer.write_all(&subscription(b"")).await.expect("room");
        drop(connection);
        let mut answer = Vec::new();
        theirs.read_to_end(&mut answer).await.expect("all of it");
        assert!(answer.ends_with(b"\0\x01\x01"), "{}", answer.escape_ascii());
    }
}
