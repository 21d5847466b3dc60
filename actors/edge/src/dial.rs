//! TCP connections to a name.

use std::net::SocketAddr;

use tokio::net::{TcpStream, lookup_host};

use crate::{PeerError, PeerErrorKind, Sent, shell_word};

/// Looks up the addresses of `host`; there is at least one.
///
/// # Errors
/// As of [`dial`].
pub(crate) async fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, PeerError> {
    let found = lookup_host((host, port)).await.map_err(|error| PeerError::unconnected(&error));
    let found = found.map(Vec::from_iter).and_then(|addresses| match addresses.is_empty() {
        true => Err(PeerError::new(PeerErrorKind::Connect, Sent::No, "the name has no address")),
        false => Ok(addresses),
    });
    let host = shell_word(host);
    found.map_err(|error| {
        error
            .with_advice(format!("getent hosts {host}; correct the host in the address, or its entry in DNS"))
    })
}

/// Connects to the first address of `host` that accepts.
///
/// # Errors
/// [`PeerErrorKind::Connect`] in the system's words. For a name without an address, the advice is the command
/// that looks it up.
pub async fn dial(host: &str, port: u16) -> Result<TcpStream, PeerError> {
    let addresses = lookup(host, port).await?;
    TcpStream::connect(&*addresses).await.map_err(|error| PeerError::unconnected(&error))
}
