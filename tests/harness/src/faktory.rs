//! A Faktory of one's own: no package of Debian has the server, so it is a stand-in that speaks its protocol,
//! `tests/peers/faktory_server.py`; and a worker that is not ours, pyfaktory's.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    DEADLINE,
    fake_server::FakeServer,
    free_port,
    python::{peers, python},
};

/// A running or killed server. Dropped, it is gone with its jobs.
#[derive(Debug)]
pub struct Faktory {
    directory: TempDir,
    port: u16,
    tls: bool,
    server: FakeServer,
}

impl Faktory {
    /// Starts a server with `options`, those that `faktory_server.py --help` shows.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(options: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("faktory-").tempdir().expect("a directory");
        let mut made = Self { directory, port: free_port(), tls: false, server: FakeServer::new("Faktory") };
        made.start_again(options);
        made
    }

    /// Starts a server that speaks TLS, with a certificate of [`Faktory::ca_file`].
    ///
    /// # Panics
    /// As [`Faktory::start`].
    pub fn start_tls() -> Self {
        let directory = tempfile::Builder::new().prefix("faktory-").tempdir().expect("a directory");
        let mut made = Self { directory, port: free_port(), tls: true, server: FakeServer::new("Faktory") };
        made.start_again(&[]);
        made
    }

    /// The file with the authority that certificates of these servers are signed by.
    pub fn ca_file() -> PathBuf {
        peers().join("tls/ca.pem")
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "tcp+tls" } else { "tcp" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Every job that it took since it was first started, in order, with what a server adds to a job.
    ///
    /// # Panics
    /// If a line of its log is none.
    pub fn accepted(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.directory.path().join("jobs.jsonl")).unwrap_or_default();
        // A line that is being written is not whole yet.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a job")).collect()
    }

    /// What it answers to `INFO`, if it has no password and does not speak TLS.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn info(&self) -> Value {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a running server");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut reader = BufReader::new(stream);
        let line = |reader: &mut BufReader<TcpStream>| {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            line
        };
        assert_eq!(line(&mut reader), "+HI {\"v\":2}\r\n");
        reader.get_mut().write_all(b"HELLO {\"v\":2}\r\n").expect("the server listens");
        assert_eq!(line(&mut reader), "+OK\r\n");
        reader.get_mut().write_all(b"INFO\r\n").expect("the server listens");
        let head = line(&mut reader);
        let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
        let mut json = vec![0; length.unwrap_or_else(|| panic!("INFO is answered with {head:?}"))];
        reader.read_exact(&mut json).expect("the whole answer");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Ends it at once. Jobs in memory are lost, those of [`Faktory::accepted`] are not.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        self.server.kill_nine();
    }

    /// Starts it after [`Faktory::kill_nine`], at the same address without jobs, with other `options`.
    ///
    /// # Panics
    /// If it does not start; its own words are on standard error.
    pub fn start_again(&mut self, options: &[&str]) {
        let mut command = Command::new("python3");
        command.arg(peers().join("faktory_server.py")).args(["--port", &self.port.to_string()]);
        command.arg("--log").arg(self.directory.path().join("jobs.jsonl")).args(options);
        if self.tls {
            let folder = peers().join("tls");
            command.arg("--tls").args([folder.join("server.pem"), folder.join("server.key")]);
        }
        command.arg("--end-with-stdin");
        self.server.start(command);
    }

    /// Stops its process where it is: connections stay, and nothing is answered any more until [`Faktory::thaw`], or it is killed.
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.server.thaw();
    }
}

/// A worker of pyfaktory's for one job type. Dropped, it is gone.
#[derive(Debug)]
pub struct PyFaktoryWorker {
    worker: Child,
    done: Receiver<String>,
}

impl PyFaktoryWorker {
    /// Starts a worker that takes jobs of `jobtype` from `queue`.
    ///
    /// # Panics
    /// If Python or the package cannot be had.
    pub fn start(server: &Faktory, queue: &str, jobtype: &str) -> Self {
        let mut command = Command::new(python());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(peers().join("faktory_worker.py")).args([&server.url(), queue, jobtype]);
        let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let lines = BufReader::new(worker.stdout.take().expect("piped")).lines();
        let (say, done) = channel();
        // It ends with the worker, or when nobody listens any more.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { worker, done }
    }

    /// Waits for the next job that the worker's function was called with; its arguments.
    ///
    /// # Panics
    /// If the worker ends, or says nothing for long.
    pub fn next_args(&mut self) -> Value {
        let line = self.done.recv_timeout(DEADLINE).expect("the worker speaks");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the worker says {}", json!(line)))
    }
}

impl Drop for PyFaktoryWorker {
    fn drop(&mut self) {
        // It ends, with the processes that it has, when its standard input does.
        drop(self.worker.stdin.take());
        let _ = self.worker.wait();
    }
}
