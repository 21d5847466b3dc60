//! A queue worker that sends and receives raw lines on the worker socket.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// Connection of a worker.
#[derive(Debug)]
pub struct Worker {
    reader: BufReader<UnixStream>,
}

/// Answer of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A job.
    Job {
        /// Attribute path.
        attr_path: String,
        /// Payload: the rest of the line.
        payload: String,
    },
    /// `NOJOBS`.
    NoJobs,
    /// The connection was closed without an answer.
    Closed,
}

impl Reply {
    /// Attribute path of a job.
    ///
    /// # Panics
    /// If the answer is not a job.
    pub fn attr_path(&self) -> &str {
        match self {
            Reply::Job { attr_path, .. } => attr_path,
            other => panic!("expected a job, got {other:?}"),
        }
    }
}

impl Worker {
    /// Connects with a read timeout of 60 s.
    ///
    /// # Errors
    /// Of the socket.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sets the read timeout.
    ///
    /// # Errors
    /// Of the socket.
    pub fn give_up_after(&self, limit: Duration) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(Some(limit))
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// Of the socket.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Shuts down the write side, as `socat` does at the end of its input.
    pub fn finish(&mut self) {
        self.try_finish().expect("shut the writing side");
    }

    /// As [`Worker::finish`], for a connection that may be broken.
    ///
    /// # Errors
    /// Of the socket.
    pub fn try_finish(&mut self) -> io::Result<()> {
        self.reader.get_ref().shutdown(Shutdown::Write)
    }

    /// Reads one answer.
    ///
    /// # Panics
    /// If the answer is not part of the protocol.
    pub fn reply(&mut self) -> Reply {
        self.try_reply().expect("read an answer")
    }

    /// Reads one answer; a broken connection is an error.
    ///
    /// # Errors
    /// Of the socket.
    ///
    /// # Panics
    /// If the answer is not part of the protocol.
    pub fn try_reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(Reply::Closed);
        }
        if line == "NOJOBS\n" {
            return Ok(Reply::NoJobs);
        }
        // An unterminated line was cut off by the end of the process.
        let Some(line) = line.strip_suffix('\n') else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let job = line.strip_prefix("JOB ").and_then(|rest| rest.split_once(' '));
        let (attr_path, payload) = job.unwrap_or_else(|| panic!("not an answer of the protocol: {line:?}"));
        Ok(Reply::Job { attr_path: attr_path.to_owned(), payload: payload.to_owned() })
    }

    /// Sends `READY` and returns the answer.
    ///
    /// # Panics
    /// If the connection breaks.
    pub fn ready(&mut self) -> Reply {
        self.send(b"READY\n").expect("send READY");
        self.reply()
    }

    /// Sends `DONE` and returns the answer.
    ///
    /// # Panics
    /// If the connection breaks.
    pub fn done(&mut self, attr_path: &str, exit_code: i64) -> Reply {
        self.send(format!("DONE {attr_path} {exit_code}\n").as_bytes()).expect("send DONE");
        self.reply()
    }

    /// Reads until the connection closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset after the last byte counts as a close.
        let _ = self.reader.read_to_end(&mut bytes);
        bytes
    }
}
