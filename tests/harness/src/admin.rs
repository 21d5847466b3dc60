//! Raw HTTP requests over the admin socket or TCP, independent of any HTTP library.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// An HTTP response.
#[derive(Debug, Clone)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The header lines.
    pub head: String,
    /// The body, chunks joined.
    pub body: String,
}

impl HttpReply {
    /// The body as JSON.
    ///
    /// # Panics
    /// If the body is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends one request over the unix socket `socket`. `headers` are complete lines without CRLF.
///
/// # Panics
/// If there is no response.
pub fn http(socket: &Path, method: &str, path: &str, headers: &[&str], body: &str) -> HttpReply {
    let stream = crate::wait_for("the admin socket to accept", || UnixStream::connect(socket).ok());
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    converse(stream, method, path, headers, body).expect("an answer")
}

/// As [`http`], for an endpoint that may be down.
///
/// # Errors
/// There is no response.
pub fn try_http(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<HttpReply> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    converse(stream, method, path, headers, body)
}

/// As [`http`], over TCP.
///
/// # Panics
/// If there is no response.
pub fn http_tcp(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> HttpReply {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    converse(stream, method, path, headers, body).expect("an answer")
}

/// Sends `bytes` over TCP and returns everything received until the peer closes the connection.
///
/// # Errors
/// Nothing was received, and the connection was reset or stayed open for 30 s.
pub fn raw_tcp(address: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    // The peer may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

fn converse(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<HttpReply> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request.push_str("Host: localhost\r\n");
    }
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    Ok(parse(&answer))
}

fn parse(answer: &[u8]) -> HttpReply {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let raw = &answer[split + 4..];
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let bytes = if chunked { join_chunks(raw) } else { raw.to_vec() };
    HttpReply { status, head, body: String::from_utf8(bytes).expect("UTF-8") }
}

fn join_chunks(mut raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(end) = raw.windows(2).position(|window| window == b"\r\n") {
        let size =
            usize::from_str_radix(String::from_utf8_lossy(&raw[..end]).trim(), 16).expect("a chunk size");
        if size == 0 {
            break;
        }
        bytes.extend_from_slice(&raw[end + 2..end + 2 + size]);
        raw = &raw[end + 2 + size + 2..];
    }
    bytes
}
