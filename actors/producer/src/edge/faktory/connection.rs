//! One connection: one command at a time, each answered within a time.

use std::{io, time::Duration};

use bytes::BytesMut;
use orchestrator_edge::Transport;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    error::{FaktoryError, PushError, Pushed},
    handshake, info,
    resp::{Reply, decode, excerpt},
    server::{Patience, Server},
    verdict::verdict,
};
use crate::{batch::Command, reading::Reading};

/// A machine that vanished is noticed a minute or two later by the system, too, whatever is being written.
const SILENCE: Duration = Duration::from_secs(60);
const PROBES: (Duration, u32) = (Duration::from_secs(15), 4);
/// How long taking leave may take.
const FAREWELL: Duration = Duration::from_millis(200);

const RUNS: &str = "see that it runs there, and that the url is right";

/// A connection after its handshake.
pub(super) struct Connection {
    stream: Box<dyn Transport>,
    buffer: BytesMut,
    patience: Patience,
}

impl Connection {
    /// Connects, and has the server answer an `INFO`: one that is too busy lets clients in and hangs up on them then.
    pub(super) async fn open(server: &Server) -> Result<Self, FaktoryError> {
        let Patience { connect, handshake, .. } = server.patience;
        let failed = |reason| FaktoryError::Connect { endpoint: server.endpoint(), reason };
        let stream = match timeout(connect, dial(server)).await {
            Ok(stream) => stream.map_err(failed)?,
            Err(_elapsed) => return Err(failed(format!("no answer within {connect:?}: {RUNS}"))),
        };
        let mut connection = Self { stream, buffer: BytesMut::new(), patience: server.patience };
        match timeout(handshake, connection.greet(server)).await {
            Ok(greeted) => greeted.map_err(failed)?,
            Err(_elapsed) => {
                return Err(failed(format!("no handshake within {handshake:?}: is this a Faktory server?")));
            }
        }
        match connection.info().await {
            Ok(_) => Ok(connection),
            Err(FaktoryError::Lost(reason) | FaktoryError::Refused { reason, .. }) => Err(failed(reason)),
            Err(other) => Err(other),
        }
    }

    async fn greet(&mut self, server: &Server) -> Result<(), String> {
        let greeting = match self.reply().await? {
            Reply::Simple(greeting) => greeting,
            Reply::Error(reason) => return Err(excerpt(&reason)),
            other => return Err(format!("its greeting is {}: is this a Faktory server?", other)),
        };
        let password = server.password()?;
        let hello = handshake::answer(&greeting, password.as_ref()).map_err(|error| error.to_string())?;
        write(&mut self.stream, hello.as_bytes(), &mut 0).await.map_err(|error| error.to_string())?;
        match self.reply().await? {
            Reply::Simple(text) if text == "OK" => Ok(()),
            Reply::Error(reason) if reason.to_ascii_lowercase().contains("password") => {
                Err(format!("{}: correct the file that password_file names", excerpt(&reason)))
            }
            Reply::Error(reason) => Err(excerpt(&reason)),
            other => Err(format!("it answers the handshake with {}: is this a Faktory server?", other)),
        }
    }

    /// Asks for queues and sets.
    pub(super) async fn info(&mut self) -> Result<Reading, FaktoryError> {
        let reply = self.ask(b"INFO\r\n", &mut 0).await.map_err(FaktoryError::Lost)?;
        match reply {
            Reply::Bulk(json) => info::parse(&json).map_err(FaktoryError::Lost),
            Reply::Error(reason) => Err(FaktoryError::Refused { what: "INFO", reason: excerpt(&reason) }),
            other => Err(FaktoryError::Lost(format!("it answers INFO with {}", other))),
        }
    }

    /// Pushes the jobs of a command. After [`PushError::NotSent`] and [`PushError::Ambiguous`] the connection is of no use.
    pub(super) async fn push(&mut self, command: &Command) -> Result<Pushed, PushError> {
        let mut sent = 0;
        match self.ask(command.bytes(), &mut sent).await {
            Ok(reply) => verdict(command, reply),
            Err(reason) if command.may_be_understood(sent) => Err(PushError::Ambiguous(reason)),
            Err(reason) => Err(PushError::NotSent(reason)),
        }
    }

    /// Sends `line`, and waits for the reply; `sent` is how much of it the system took, also if this fails or is dropped.
    async fn ask(&mut self, line: &[u8], sent: &mut usize) -> Result<Reply, String> {
        let patience = self.patience.reply;
        let answered = timeout(patience, async {
            write(&mut self.stream, line, sent).await.map_err(|error| error.to_string())?;
            self.reply().await
        });
        answered.await.unwrap_or_else(|_elapsed| Err(format!("no reply within {patience:?}")))
    }

    /// The next reply, in however many pieces it comes. May be dropped and called again.
    async fn reply(&mut self) -> Result<Reply, String> {
        loop {
            if let Some(reply) = decode(&mut self.buffer).map_err(|error| error.to_string())? {
                return Ok(reply);
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err("the server closed it".to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Waits until the connection is of no use, while nothing is asked: it is closed, or the server says something. May be dropped
    /// and called again.
    pub(super) async fn lost(&mut self) -> FaktoryError {
        FaktoryError::Lost(match self.reply().await {
            Err(reason) => reason,
            Ok(Reply::Error(reason)) => excerpt(&reason),
            Ok(other) => format!("it says {} without being asked", other),
        })
    }

    /// Takes leave. The server closes without a word.
    pub(super) async fn end(mut self) {
        // Whether it hears it or not: the connection ends with this value.
        let _ = timeout(FAREWELL, async {
            write(&mut self.stream, b"END\r\n", &mut 0).await?;
            self.stream.shutdown().await
        })
        .await;
    }
}

async fn dial(server: &Server) -> Result<Box<dyn Transport>, String> {
    let stream = TcpStream::connect((&*server.at.host, server.at.port)).await;
    let stream = stream.map_err(|error| format!("{error}: {RUNS}"))?;
    // Else the last piece of a batch waits for the acknowledgement of the piece before, 40 ms.
    stream.set_nodelay(true).map_err(|error| format!("TCP_NODELAY cannot be set: {error}"))?;
    keep_alive(&stream).map_err(|error| format!("keep-alive cannot be set: {error}"))?;
    let Some(tls) = &server.tls else { return Ok(Box::new(stream)) };
    let secured = tls.connect(stream).await;
    secured.map(|stream| Box::new(stream) as Box<dyn Transport>).map_err(|error| {
        format!("TLS: {error}: see that the server speaks TLS, and that ca_file has the authority of its certificate")
    })
}

fn keep_alive(stream: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, SILENCE)?;
    set_tcp_keepintvl(stream, PROBES.0)?;
    set_tcp_keepcnt(stream, PROBES.1)
}

/// Writes all of `bytes`; `sent` is how much was taken, also if this fails or is dropped.
async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8], sent: &mut usize) -> io::Result<()> {
    while *sent < bytes.len() {
        match stream.write(&bytes[*sent..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            taken => *sent += taken,
        }
    }
    stream.flush().await
}
