//! A reader of the admin endpoint's stream of events.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminEvent {
    /// Its number.
    pub id: u64,
    /// Its kind, or `resync`.
    pub event: String,
    /// What it says.
    pub data: Value,
}

/// A connection on which events come. It stays open until it is dropped.
#[derive(Debug)]
pub struct EventReader<S> {
    stream: BufReader<S>,
    /// Of the answer.
    pub status: u16,
    /// Header lines of the answer.
    pub head: String,
}

impl EventReader<UnixStream> {
    /// Over the unix socket; `query` begins with `?` or is empty, `headers` are whole lines without their ends.
    ///
    /// # Errors
    /// There is no answer.
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
    /// There is no answer.
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

    /// The next event; comments are skipped. None at the end.
    ///
    /// # Panics
    /// If none comes within a minute, or what comes is no event.
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
            // Sizes of chunks are lines without a colon: they say nothing.
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

    /// The first event that `wanted` picks.
    ///
    /// # Panics
    /// If the stream ends before.
    pub fn find(&mut self, mut wanted: impl FnMut(&AdminEvent) -> bool) -> AdminEvent {
        loop {
            let told = self.next_event().expect("the stream goes on");
            if wanted(&told) {
                return told;
            }
        }
    }
}
