//! A fast Faktory worker that acknowledges every job at once. pyfaktory's takes only ten jobs a second.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::Faktory;

/// Heartbeat interval; a server drops a worker after 60 s without one.
const BEAT: Duration = Duration::from_secs(10);
const HELLO: &str = r#"HELLO {"v":2,"hostname":"test","wid":"drain","pid":1,"labels":[]}"#;

/// Worker that fetches and acknowledges the jobs of one queue, and reconnects after restarts. It stops when
/// dropped.
#[derive(Debug)]
pub struct FaktoryWorker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FaktoryWorker {
    /// Starts to fetch jobs from `queue`.
    pub fn start(server: &Faktory, queue: &str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (port, fetch, ended) = (server.port(), format!("FETCH {queue}"), over.clone());
        let thread = thread::spawn(move || {
            while !ended.load(SeqCst) {
                // The server may be restarting.
                if drain(port, &fetch, &ended).is_err() {
                    thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for FaktoryWorker {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // The panic message of the thread is printed anyway.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn drain(port: u16, fetch: &str, over: &AtomicBool) -> io::Result<()> {
    let mut server = Line::to(port)?;
    let mut beaten = Instant::now();
    while !over.load(SeqCst) {
        if let Some(job) = server.ask(fetch)? {
            let job: serde_json::Value = serde_json::from_slice(&job)?;
            server.ask(&format!("ACK {{\"jid\":{}}}", job["jid"]))?;
        }
        if beaten.elapsed() > BEAT {
            server.ask(r#"BEAT {"wid":"drain"}"#)?;
            beaten = Instant::now();
        }
    }
    Ok(())
}

/// Authenticated connection.
struct Line(BufReader<TcpStream>);

impl Line {
    fn to(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        // Longer than a FETCH waits for a job.
        stream.set_read_timeout(Some(BEAT))?;
        let mut line = Self(BufReader::new(stream));
        line.read()?;
        line.ask(HELLO)?;
        Ok(line)
    }

    /// Sends a command and returns the content of a bulk reply.
    fn ask(&mut self, command: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let head = self.read()?;
        match head.split_at_checked(1) {
            Some(("+", _)) | Some(("$", "-1")) => Ok(None),
            Some(("$", length)) => {
                let mut bulk = vec![0; length.parse::<usize>().map_err(io::Error::other)? + 2];
                self.0.read_exact(&mut bulk)?;
                bulk.truncate(bulk.len() - 2);
                Ok(Some(bulk))
            }
            _ => Err(io::Error::other(head)),
        }
    }

    fn read(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
