//! A reader of the admin endpoint's stream of events.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::Value;

/// Event of the admin endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminEvent {
    /// Sequence number.
    pub id: u64,
    /// Kind of the event, or `resync`.
    pub event: String,
    /// Payload.
    pub data: Value,
}

/// Open event stream (server-sent events).
#[derive(Debug)]
pub struct EventReader<S> {
    stream: BufReader<S>,
    /// HTTP status of the response.
    pub status: u16,
    /// Header lines of the response.
    pub head: String,
}

impl EventReader<UnixStream> {
    /// Opens a stream over the unix socket. `query` begins with `?` or is empty; `headers` are lines without
    /// CRLF.
    ///
    /// # Errors
    /// There is no response.
    pub fn unix(socket: &Path, query: &str, headers: &[&str]) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Self::ask(stream, query, headers)
    }
}

impl EventReader<TcpStream> {
    /// As [`EventReader::unix`], over TCP.
    ///
    /// # Errors
    /// There is no response.
    pub fn tcp(address: SocketAddr, query: &str, headers: &[&str]) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Self::ask(stream, query, headers)
    }
}

impl<S: Read + Write> EventReader<S> {
    fn ask(mut stream: S, query: &str, headers: &[&str]) -> io::Result<Self> {
        let mut request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        Ok(Self { stream, status, head })
    }

    /// Returns the next event, or None at the end of the stream. Comments are skipped.
    ///
    /// # Panics
    /// If no event arrives within 60 s, or it cannot be parsed.
    pub fn next_event(&mut self) -> Option<AdminEvent> {
        let (mut id, mut event) = (None, None);
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no event within a minute"),
                Err(_reset) => return None,
            }
            // Lines without a colon are chunk sizes.
            let Some((field, value)) = line.trim_end().split_once(':') else { continue };
            match field {
                "id" => id = value.trim().parse().ok(),
                "event" => event = Some(value.trim().to_owned()),
                "data" => {
                    let data = serde_json::from_str(value).expect("JSON in one line");
                    return Some(AdminEvent { id: id.expect("an id"), event: event.expect("a kind"), data });
                }
                _ => {}
            }
        }
    }

    /// Skips events until `wanted` returns true, and returns that one.
    ///
    /// # Panics
    /// If the stream ends first.
    pub fn find(&mut self, mut wanted: impl FnMut(&AdminEvent) -> bool) -> AdminEvent {
        loop {
            let event = self.next_event().expect("an open stream");
            if wanted(&event) {
                return event;
            }
        }
    }
}
