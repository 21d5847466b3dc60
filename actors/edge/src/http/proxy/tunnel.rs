//! Tunnel through a proxy to a server with TLS.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::Proxy;
use crate::{HostPort, PeerError, PeerErrorKind};

/// Longest head of a proxy's answer to CONNECT, in bytes.
const ANSWER_MAX: usize = 8_192;

impl Proxy {
    /// Asks the proxy for a tunnel to `server` (RFC 9110 §9.3.6).
    pub(in crate::http) async fn tunnel(
        &self,
        stream: &mut TcpStream,
        server: &HostPort,
    ) -> Result<(), PeerError> {
        let mut head = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n").into_bytes();
        if let Some(value) = &self.authorization {
            head.extend_from_slice(&[b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
        }
        head.extend_from_slice(b"\r\n");
        let lost = |error| self.failed(PeerErrorKind::Lost, &error);
        stream.write_all(&head).await.map_err(lost)?;
        let mut answer = Vec::new();
        // The server behind the proxy waits for the TLS client's first message, so nothing follows the head.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > ANSWER_MAX {
                return Err(self.failed(PeerErrorKind::TooLarge, &"the head of its answer is too long"));
            }
            if stream.read_buf(&mut answer).await.map_err(lost)? == 0 {
                return Err(self.failed(PeerErrorKind::Lost, &"it closed the connection"));
            }
        }
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        match line.strip_prefix(b"HTTP/1.") {
            Some([_, b' ', b'2', _, _, ..]) => Ok(()),
            Some(_) => {
                let said = String::from_utf8_lossy(line);
                Err(self.failed(PeerErrorKind::Refused, &format!("it answered CONNECT {server} with {said}")))
            }
            None => Err(self.failed(PeerErrorKind::Malformed, &"its answer is not HTTP/1.1")),
        }
    }
}
