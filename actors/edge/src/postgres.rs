//! Client of PostgreSQL servers: connection strings with libpq's services, passfiles, variables and
//! `sslmode`, several servers, no password in clear text for a remote peer, limits on what a server sends,
//! pipelined transactions and notifications.
//!
//! [`Address::parse`] reads a connection string, [`Session::open`] connects.

mod address;
mod advice;
mod authentication;
mod configured_address;
mod connector;
mod environment;
mod limits;
mod notifications;
mod option_error;
mod options;
mod parameters;
mod passfile;
mod pipeline;
mod polled_connection;
mod postgres_error;
mod session;
mod target_server;
#[cfg(test)]
mod tests;

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
pub use tokio_postgres::{Notification, Row, error::SqlState, row::RowIndex, types};
use tokio_rustls::TlsConnector;

use self::authentication::AuthenticationGuard;
pub use self::{
    address::Address,
    advice::Login,
    configured_address::ConfiguredAddress,
    postgres_error::PostgresError,
    session::{Params, Session, SessionSettings},
};
use crate::{
    LimitedStream, Transport,
    tls::{ServerName, TlsClient},
};

/// Request for TLS: the length of the message, and the code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Protection of connections, as libpq's `sslmode` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SslMode {
    /// No TLS, and any authentication: the network is trusted.
    Disable,
    /// TLS if the server offers it; the default.
    Prefer,
    /// TLS with any certificate.
    Require,
    /// TLS with a certificate of a known authority, whatever host it names.
    VerifyCa,
    /// TLS with a certificate of a known authority for the host.
    VerifyFull,
}

impl SslMode {
    const ALL: [(&'static str, Self); 5] = [
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// TLS of the connections to one address.
#[derive(Clone)]
struct PostgresTls {
    mode: SslMode,
    /// None: [`SslMode::Disable`].
    connector: Option<TlsConnector>,
}

impl PostgresTls {
    /// Prepares a connection to `host`: negotiates TLS, and refuses a peer that asks for a password that it
    /// must not get. A peer on the loopback interface counts as local: it may ask for any.
    ///
    /// # Errors
    /// The server offers no TLS although it is required, or the handshake fails; the text says what to do.
    /// Reads fail if the server asks for a password in clear text over an unprotected connection.
    async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<Box<dyn Transport>> {
        let is_local = stream.peer_addr()?.ip().to_canonical().is_loopback();
        self.secure_peer(stream, host, is_local).await
    }

    async fn secure_peer(
        &self,
        mut stream: TcpStream,
        host: &str,
        is_local: bool,
    ) -> io::Result<Box<dyn Transport>> {
        let Some(connector) = &self.connector else { return Ok(Box::new(stream)) };
        let mode = self.mode.name();
        stream.write_all(&SSL_REQUEST).await?;
        match stream.read_u8().await? {
            b'S' => {
                let stream = self.client(connector, &stream, host)?.connect(stream).await;
                let stream = stream.map_err(|error| {
                    let advice = "correct its certificate or sslrootcert, or choose another sslmode";
                    io::Error::other(format!("TLS with sslmode={mode} failed: {error}: {advice}"))
                })?;
                Ok(Box::new(stream))
            }
            b'N' if self.mode > SslMode::Prefer => Err(io::Error::other(format!(
                "the server offers no TLS, but sslmode={mode}: switch its setting ssl on"
            ))),
            b'N' if is_local => Ok(Box::new(stream)),
            b'N' => {
                tracing::warn!(
                    host,
                    "the PostgreSQL server offers no TLS: rows are not encrypted; write sslmode=require to \
                     refuse that, or sslmode=disable to allow it"
                );
                Ok(Box::new(LimitedStream::new(stream, AuthenticationGuard::new(host))))
            }
            _ => Err(io::Error::other("the server does not answer a request for TLS as PostgreSQL does")),
        }
    }

    fn client(&self, connector: &TlsConnector, stream: &TcpStream, host: &str) -> io::Result<TlsClient> {
        // A name that no certificate can have matters only to the mode that checks it.
        let client = match ServerName::try_from(host.to_owned()) {
            Err(_) if self.mode < SslMode::VerifyFull => {
                TlsClient::new(connector.clone(), &stream.peer_addr()?.ip().to_string())
            }
            _ => TlsClient::new(connector.clone(), host),
        };
        client.ok_or_else(|| io::Error::other(format!("{host}: no name that a certificate can have")))
    }
}
