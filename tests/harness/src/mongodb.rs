//! A MongoDB of one's own: no package of Debian has the server, so it is a stand-in that speaks its protocol,
//! `tests/peers/mongo_server.py`, in a Python environment that is made once below `target/`.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::python::{peers, python};

/// A running or killed server. Dropped, it is gone with its documents.
#[derive(Debug)]
pub struct MongoDb {
    directory: TempDir,
    port: u16,
    server: Option<Child>,
}

impl MongoDb {
    /// Starts a server without documents.
    ///
    /// # Panics
    /// If Python cannot be had, or the server does not start.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("mongodb-").tempdir().expect("a directory");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let mut made = Self { directory, port: free.expect("a free port").port(), server: None };
        made.start_again();
        made
    }

    /// Where it is.
    pub fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once. What it had answered is kept, as a journaled server keeps it.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        let mut server = self.server.take().expect("a running server");
        server.kill().expect("the server is ours");
        server.wait().expect("its end");
    }

    /// Starts it after [`MongoDb::kill_nine`], at the same address with the same documents.
    ///
    /// # Panics
    /// If it does not start; its own words are on standard error.
    pub fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        let mut command = Command::new(python());
        command.arg(peers().join("mongo_server.py")).arg(self.port.to_string());
        command.arg(self.directory.path().join("journal"));
        // It ends with its standard input: also when the test's process is killed.
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let mut line = String::new();
        let said = BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line);
        assert!(said.is_ok() && line.starts_with("listening"), "the stand-in for MongoDB does not start");
        self.server = Some(server);
    }
}

impl Drop for MongoDb {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
