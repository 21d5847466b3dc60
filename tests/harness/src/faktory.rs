//! A private Faktory server. Debian has no package of it, so this is a fake server,
//! `tests/peers/faktory_server.py`. Its worker is pyfaktory's.

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

/// Running or killed server. It is removed with its jobs when dropped.
#[derive(Debug)]
pub struct Faktory {
    directory: TempDir,
    port: u16,
    tls: bool,
    server: FakeServer,
}

impl Faktory {
    /// Starts a server with `options` (see `faktory_server.py --help`).
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(options: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("faktory-").tempdir().expect("a directory");
        let mut made = Self { directory, port: free_port(), tls: false, server: FakeServer::new("Faktory") };
        made.start_again(options);
        made
    }

    /// Starts a TLS server with a certificate signed by [`Faktory::ca_file`], unless `options` name another
    /// one.
    ///
    /// # Panics
    /// As [`Faktory::start`].
    pub fn start_tls(options: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("faktory-").tempdir().expect("a directory");
        let mut made = Self { directory, port: free_port(), tls: true, server: FakeServer::new("Faktory") };
        made.start_again(options);
        made
    }

    /// PEM file of the certificate authority of all TLS test servers.
    pub fn ca_file() -> PathBuf {
        peers().join("tls/ca.pem")
    }

    /// Address of the server.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "tcp+tls" } else { "tcp" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Jobs accepted since the first start, in order, with the fields that a server adds.
    ///
    /// # Panics
    /// If a line of the server's log is not JSON.
    pub fn accepted(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.directory.path().join("jobs.jsonl")).unwrap_or_default();
        // The last line may be incomplete.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a job")).collect()
    }

    /// Answer to `INFO`, for a server without password and TLS.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn info(&self) -> Value {
        let mut reader = self.connect();
        reader.get_mut().write_all(b"INFO\r\n").expect("the server listens");
        let head = line(&mut reader);
        let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
        let mut json = vec![0; length.unwrap_or_else(|| panic!("INFO is answered with {head:?}"))];
        reader.read_exact(&mut json).expect("the whole answer");
        serde_json::from_slice(&json).expect("JSON")
    }

    /// Pushes a job, as another client does, to a server without password and TLS.
    ///
    /// # Panics
    /// If it is not accepted.
    pub fn push(&self, job: &Value) {
        let mut reader = self.connect();
        reader.get_mut().write_all(format!("PUSH {job}\r\n").as_bytes()).expect("the server listens");
        assert_eq!(line(&mut reader), "+OK\r\n");
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a running server");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let mut reader = BufReader::new(stream);
        assert_eq!(line(&mut reader), "+HI {\"v\":2}\r\n");
        reader.get_mut().write_all(b"HELLO {\"v\":2}\r\n").expect("the server listens");
        assert_eq!(line(&mut reader), "+OK\r\n");
        reader
    }

    /// Kills the server. Queued jobs are lost; [`Faktory::accepted`] still returns them.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        self.server.kill_nine();
    }

    /// Starts a killed server at the same address, without jobs, with other `options`.
    ///
    /// # Panics
    /// If it does not start; its output is on standard error.
    pub fn start_again(&mut self, options: &[&str]) {
        let mut command = Command::new("python3");
        command.arg(peers().join("faktory_server.py")).args(["--port", &self.port.to_string()]);
        command.arg("--log").arg(self.directory.path().join("jobs.jsonl"));
        if self.tls {
            let folder = peers().join("tls");
            command.arg("--tls").args([folder.join("server.pem"), folder.join("server.key")]);
        }
        command.args(options).arg("--end-with-stdin");
        self.server.start(command);
    }

    /// Suspends the process with SIGSTOP: connections stay open, and nothing is answered until
    /// [`Faktory::thaw`].
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// Resumes the process.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.server.thaw();
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    line
}

/// Worker of pyfaktory for one job type. It is stopped when dropped.
#[derive(Debug)]
pub struct PyFaktoryWorker {
    worker: Child,
    done: Receiver<String>,
}

impl PyFaktoryWorker {
    /// Starts a worker that fetches jobs of `jobtype` from `queue`.
    ///
    /// # Panics
    /// If Python or the package cannot be installed.
    pub fn start(server: &Faktory, queue: &str, jobtype: &str) -> Self {
        let mut command = Command::new(python());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(peers().join("faktory_worker.py")).args([&server.url(), queue, jobtype]);
        let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let lines = BufReader::new(worker.stdout.take().expect("piped")).lines();
        let (say, done) = channel();
        // Ends with the worker or with its receiver.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { worker, done }
    }

    /// Waits for the next call of the worker's function and returns its arguments.
    ///
    /// # Panics
    /// If the worker ends, or there is no call within the deadline.
    pub fn next_args(&mut self) -> Value {
        let line = self.done.recv_timeout(DEADLINE).expect("the worker speaks");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the worker says {}", json!(line)))
    }
}

impl Drop for PyFaktoryWorker {
    fn drop(&mut self) {
        // The worker and its child processes end when its standard input closes.
        drop(self.worker.stdin.take());
        let _ = self.worker.wait();
    }
}
