//! `orchestrator ingester play`: plays a dump or a raw capture as a source.
//!
//! The file is read no faster than the receiver takes its messages: a socket of the crate `zeromq`
//! would queue 100,000 of them.

use std::{fs::File, io, net::SocketAddr, path::PathBuf, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use orchestrator_ingester_protocols::cbors::{Entry, Event, Reader, Stream};
use orchestrator_ingester_zmtp::{FrameLimits, SocketType, encode_message};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    edge::{
        sources::{Pace, Pacer},
        zmtp_stream::{Connection, HandshakeOptions, StreamError, handshake},
    },
    item::Parts,
};

/// Bytes after which messages are written.
const BLOCK: usize = 256 << 10;
/// Time-out of a receiver's handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits of a receiver's messages, which are subscriptions.
const LIMITS: FrameLimits = FrameLimits { frame_max: 64 << 10, message_max: 64 << 10, parts_max: 16 };
/// Types of items whose sources push.
const PUSHED: [&str; 3] = ["STINS", "EIGER_LEGACY", "EIGER_V2"];

/// File to play and its receiver.
pub(crate) struct Play {
    pub(crate) file: PathBuf,
    pub(crate) listen: String,
    /// Stream of a dump; None if it has one only.
    pub(crate) stream: Option<String>,
    /// None: by the type of the first item.
    pub(crate) socket: Option<SocketType>,
    pub(crate) pace: Pace,
}

/// Messages and bytes that were played.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Message of the file, with the type of its item and its time.
struct PlayedMessage {
    parts: Parts,
    typ: Option<String>,
    time: Option<Timestamp>,
}

impl Play {
    /// Plays the file to one receiver at a time and waits until the last one has read all. `begun`
    /// is called with the address and the type of the socket.
    ///
    /// # Errors
    /// The file or the address cannot be used; the text says what to do.
    pub(crate) async fn run(&self, begun: impl FnOnce(SocketAddr, SocketType)) -> Result<Played, String> {
        let file = File::open(&self.file).map_err(|error| self.file_error(&error))?;
        let mut reader = Reader::new(file);
        let mut next = self.next(&mut reader)?;
        let typ = next.as_ref().and_then(|message| message.typ.as_deref());
        let pushed = typ.is_none_or(|typ| PUSHED.contains(&typ));
        let socket = self.socket.unwrap_or(if pushed { SocketType::Push } else { SocketType::Pub });
        let listener = TcpListener::bind(&self.listen).await;
        let listener = listener.map_err(|error| {
            format!("--to tcp://{}: {error}: give a free address of this machine", self.listen)
        })?;
        begun(listener.local_addr().map_err(|error| error.to_string())?, socket);
        let (mut receiver, mut played) = (accept(&listener, socket).await, Played::default());
        // Ends of the messages in the block.
        let (mut pacer, mut block, mut ends) = (Pacer::new(self.pace), Vec::new(), Vec::new());
        while let Some(message) = next {
            match (pacer.is_recorded(), message.time) {
                (true, Some(time)) => pacer.wait_recorded(time).await,
                (true, None) => {
                    return Err(self.file_error(&"it has no times: give a rate such as --pace 1000/s"));
                }
                (false, _) => pacer.wait_rate().await,
            }
            encode_message(&message.parts, &mut block);
            ends.push(block.len());
            played.messages += 1;
            played.bytes += message.parts.iter().map(Bytes::len).sum::<usize>() as u64;
            next = self.next(&mut reader)?;
            if self.pace != Pace::Full || block.len() >= BLOCK || next.is_none() {
                let mut written = 0;
                while written < block.len() {
                    match receiver.writer.write(&block[written..]).await {
                        Ok(count) => written += count,
                        Err(_) => {
                            // A message that was written in part goes to the next receiver, whole.
                            let whole = ends.iter().rev().find(|end| **end <= written);
                            written = whole.copied().unwrap_or_default();
                            receiver = accept(&listener, socket).await;
                        }
                    }
                }
                block.clear();
                ends.clear();
            }
        }
        close(receiver).await;
        Ok(played)
    }

    fn next(&self, reader: &mut Reader<File>) -> Result<Option<PlayedMessage>, String> {
        loop {
            let event = match reader.read().map_err(|error| self.file_error(&error))? {
                None => return Ok(None),
                Some(Entry::Message(parts)) => {
                    return Ok(Some(PlayedMessage { parts, typ: None, time: None }));
                }
                Some(Entry::Event(event)) => event,
            };
            let time = event.created_at;
            if let Some(Stream { typ, frames, .. }) = self.choose(event)? {
                return Ok(Some(PlayedMessage { parts: frames, typ: Some(typ), time }));
            }
        }
    }

    /// The played stream of an event, if the event has it.
    fn choose(&self, event: Event) -> Result<Option<Stream>, String> {
        let mut streams = event.streams;
        match &self.stream {
            Some(name) => Ok(streams.into_iter().find(|stream| stream.name == *name)),
            None if streams.len() <= 1 => Ok(streams.pop()),
            None => {
                let names: Vec<_> = streams.iter().take(16).map(|stream| stream.name.as_str()).collect();
                Err(self.file_error(&format!("it has several streams: choose one with --stream: {names:?}")))
            }
        }
    }

    fn file_error(&self, reason: &dyn std::fmt::Display) -> String {
        format!("{}: {reason}", self.file.display())
    }
}

/// Waits for a receiver that completes its handshake; one of a PUB must subscribe.
async fn accept(listener: &TcpListener, socket: SocketType) -> Connection {
    let options = HandshakeOptions {
        socket_type: socket,
        identity: Bytes::new(),
        limits: LIMITS,
        block_bytes: 4 << 10,
        deadline: HANDSHAKE_TIMEOUT,
    };
    loop {
        let opened = async {
            let (stream, _) = listener.accept().await?;
            let mut connection = handshake(stream, &options).await?;
            if socket == SocketType::Pub {
                connection.reader.next_message(&mut connection.writer).await?;
            }
            Ok::<_, StreamError>(connection)
        };
        match opened.await {
            Ok(connection) => return connection,
            Err(error) => tracing::warn!(%error, "a receiver was refused"),
        }
    }
}

/// Waits until the receiver has read all and closes the connection.
async fn close(receiver: Connection) {
    let Connection { reader, mut writer, .. } = receiver;
    let (mut read, _) = reader.into_parts();
    let end = async {
        writer.shutdown().await?;
        let mut rest = [0; 1024];
        while read.read(&mut rest).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    // A receiver that resets the connection has gone, too.
    let _ = end.await;
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::{net::TcpStream, sync::oneshot};

    use super::*;

    const SMALL: usize = 100;

    /// CBOR of a raw capture: small messages, then a long one that no socket takes at once.
    fn capture() -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..SMALL as u8).for_each(|n| bytes.extend([0x81, 0x41, n]));
        bytes.extend([&[0x81, 0x5a][..], &(32_u32 << 20).to_be_bytes(), &vec![0; 32 << 20]].concat());
        bytes
    }

    async fn receiver(address: SocketAddr) -> Connection {
        let limits = FrameLimits { frame_max: 1 << 30, message_max: 1 << 30, parts_max: 16 };
        let options = HandshakeOptions {
            socket_type: SocketType::Pull,
            identity: Bytes::new(),
            limits,
            block_bytes: 4 << 10,
            deadline: HANDSHAKE_TIMEOUT,
        };
        let stream = TcpStream::connect(address).await.expect("it listens");
        handshake(stream, &options).await.expect("a PUSH")
    }

    #[tokio::test]
    async fn a_message_that_a_lost_receiver_got_is_not_sent_again() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&capture()).expect("room");
        let play = Play {
            file: file.path().to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            stream: None,
            socket: None,
            pace: Pace::Full,
        };
        let (begun, address) = oneshot::channel();
        let playing = play.run(|address, _| begun.send(address).expect("it is awaited"));
        let receiving = async {
            let address = address.await.expect("it listens");
            let mut first = receiver(address).await;
            for n in 0..SMALL as u8 {
                let message = first.reader.next_message(&mut first.writer).await.expect("no error");
                assert_eq!(message.expect("a message")[0][..], [n]);
            }
            drop(first);
            let mut second = receiver(address).await;
            let message = second.reader.next_message(&mut second.writer).await.expect("no error");
            assert_eq!(message.expect("the long one")[0].len(), 32 << 20);
            assert!(matches!(second.reader.next_message(&mut second.writer).await, Ok(None)));
        };
        let (played, ()) = tokio::join!(playing, receiving);
        assert_eq!(played.expect("it ends").messages, SMALL as u64 + 1);
    }
}
