//! A connection to Faktory: one command at a time, each with a time-out.

use std::{io, time::Duration};

use bytes::BytesMut;
use orchestrator_edge::{PeerError, PeerErrorKind, Sent, Transport, dial};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    error::{ambiguous, connection_lost, not_sent},
    protocol,
    resp::{Reply, decode, excerpt},
    server::{Server, Timeouts},
};
use orchestrator_producer_rules::{batch::Command, queue_state::QueueState};

use crate::queue::Unacknowledged;

/// Time-out of the `END` command.
const END_TIMEOUT: Duration = Duration::from_millis(200);
const CHECK_SERVER: &str = "check that Faktory runs there and that the url is right";

/// A connection after its handshake.
pub(super) struct Connection {
    stream: Box<dyn Transport>,
    buffer: BytesMut,
    timeouts: Timeouts,
}

impl Connection {
    /// Connects and requires a reply to `INFO`: an overloaded server accepts clients and then disconnects
    /// them.
    pub(super) async fn open(server: &Server) -> Result<Self, PeerError> {
        let failed = |error: PeerError| {
            let error = PeerError { sent: Sent::No, ..error };
            error.map_text(|reason| format!("cannot connect to faktory at {}: {reason}", server.endpoint()))
        };
        let late = |text: String| PeerError::new(PeerErrorKind::Timeout, Sent::No, text);
        let Timeouts { connect, handshake, .. } = server.timeouts;
        let dialled = timeout(connect, connect_to(server)).await;
        let dialled =
            dialled.unwrap_or_else(|_| Err(late(format!("no answer within {connect:?}: {CHECK_SERVER}"))));
        let mut connection =
            Self { stream: dialled.map_err(failed)?, buffer: BytesMut::new(), timeouts: server.timeouts };
        timeout(handshake, connection.handshake(server))
            .await
            .unwrap_or_else(|_| {
                Err(late(format!("no handshake within {handshake:?}: is this a Faktory server?")))
            })
            .map_err(failed)?;
        connection.queue_state().await.map_err(failed)?;
        Ok(connection)
    }

    async fn handshake(&mut self, server: &Server) -> Result<(), PeerError> {
        let strange = |text: String| PeerError::new(PeerErrorKind::Malformed, Sent::No, text);
        let refused = |reason: &str| PeerError::new(PeerErrorKind::Refused, Sent::No, excerpt(reason));
        let greeting = match self.receive().await.map_err(PeerError::lost)? {
            Reply::Simple(greeting) => greeting,
            Reply::Error(reason) => return Err(refused(&reason)),
            other => return Err(strange(format!("its greeting is {other}: is this a Faktory server?"))),
        };
        let password = server.password().map_err(strange)?;
        let hello = protocol::hello(&greeting, password.as_deref())?;
        self.send(hello.as_bytes(), &mut 0).await.map_err(PeerError::lost)?;
        match self.receive().await.map_err(PeerError::lost)? {
            Reply::Simple(text) if text == "OK" => Ok(()),
            // After the greeting, a server checks only the password and the version of the protocol.
            Reply::Error(reason) => {
                let advice = "correct the file that producer.faktory.password_file names; the server has it in its own FAKTORY_PASSWORD";
                Err(refused(&reason).with_advice(password.is_some().then(|| advice.to_owned())))
            }
            other => {
                Err(strange(format!("it answers the handshake with {other}: is this a Faktory server?")))
            }
        }
    }

    /// Requests the lengths of queues and sets.
    pub(super) async fn info(&mut self) -> Result<QueueState, PeerError> {
        self.queue_state().await.map_err(|error| match error.kind {
            PeerErrorKind::Refused => {
                error.map_text(|text| format!("faktory refuses to answer INFO: {text}"))
            }
            _ => connection_lost(&error.text),
        })
    }

    /// Requests what [`Connection::info`] does. The text of an error is that of the server or the system.
    async fn queue_state(&mut self) -> Result<QueueState, PeerError> {
        match self.request(b"INFO\r\n", &mut 0).await.map_err(PeerError::lost)? {
            Reply::Bulk(json) => protocol::parse_info(&json).map_err(PeerError::lost),
            Reply::Error(reason) => Err(PeerError::new(PeerErrorKind::Refused, Sent::Yes, excerpt(&reason))),
            other => Err(PeerError::lost(format!("it answers INFO with {other}"))),
        }
    }

    /// Pushes the jobs of `command` and returns those that the server refused. After an error, the connection
    /// can be used only if its kind is [`PeerErrorKind::Refused`].
    pub(super) async fn push(&mut self, command: &Command) -> Result<Option<Unacknowledged>, PeerError> {
        let mut sent = 0;
        match self.request(command.bytes(), &mut sent).await {
            Ok(reply) => protocol::parse_push_reply(command, reply),
            Err(reason) if command.may_be_parsed(sent) => Err(ambiguous(&reason)),
            Err(reason) => Err(not_sent(&reason)),
        }
    }

    /// Sends `line` and receives the reply. `sent` counts the bytes that the system accepted, also after an
    /// error.
    async fn request(&mut self, line: &[u8], sent: &mut usize) -> Result<Reply, String> {
        let limit = self.timeouts.reply;
        let exchange = async {
            self.send(line, sent).await?;
            self.receive().await
        };
        timeout(limit, exchange).await.unwrap_or_else(|_| Err(format!("no reply within {limit:?}")))
    }

    async fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<(), String> {
        let write = async {
            while *sent < bytes.len() {
                match self.stream.write(&bytes[*sent..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    written => *sent += written,
                }
            }
            self.stream.flush().await
        };
        write.await.map_err(|error| error.to_string())
    }

    /// Receives the next reply. Cancel safe.
    async fn receive(&mut self) -> Result<Reply, String> {
        loop {
            if let Some(reply) = decode(&mut self.buffer)? {
                return Ok(reply);
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("the server closed it".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Waits, without a command in flight, until the connection is closed or the server sends something.
    /// Cancel safe.
    pub(super) async fn lost(&mut self) -> PeerError {
        connection_lost(&match self.receive().await {
            Err(reason) => reason,
            Ok(Reply::Error(reason)) => excerpt(&reason),
            Ok(other) => format!("it sends {other} without a command"),
        })
    }

    /// Sends `END`; the server closes the connection without a reply.
    pub(super) async fn end(mut self) {
        let end = async {
            self.send(b"END\r\n", &mut 0).await?;
            self.stream.shutdown().await.map_err(|error| error.to_string())
        };
        // Without `END`, dropping the stream closes the connection.
        let _ = timeout(END_TIMEOUT, end).await;
    }
}

async fn connect_to(server: &Server) -> Result<Box<dyn Transport>, PeerError> {
    let stream = dial(&server.address.host, server.address.port).await;
    let stream = stream.map_err(|error| error.map_text(|text| format!("{text}: {CHECK_SERVER}")))?;
    // With Nagle's algorithm, the last segment of a batch waits 40 ms for an acknowledgement.
    stream
        .set_nodelay(true)
        .map_err(|error| PeerError::lost(format!("TCP_NODELAY cannot be set: {error}")))?;
    set_keepalive(&stream).map_err(|error| PeerError::lost(format!("keep-alive cannot be set: {error}")))?;
    let Some(tls) = &server.tls else { return Ok(Box::new(stream)) };
    let secured = tls.secure(stream, &server.address).await;
    secured.map(|stream| Box::new(stream) as Box<dyn Transport>).map_err(|error| {
        error.map_text(|text| {
            format!("{text}: see that the server speaks TLS, and that ca_file has the authority of its certificate")
        })
    })
}

/// Lets the system detect a vanished host within two minutes.
fn set_keepalive(stream: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, Duration::from_secs(60))?;
    set_tcp_keepintvl(stream, Duration::from_secs(15))?;
    set_tcp_keepcnt(stream, 4)
}
