//! A private ERMrest server. Debian has no package of it, so this is a fake server,
//! `tests/peers/ermrest_server.py`.

use std::{net::SocketAddr, process::Command};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{
    HttpReply,
    fake_server::FakeServer,
    free_port, http_tcp,
    python::{peers, python},
    wait_for,
};

/// Server with one catalog: running, stopped or killed. It is removed with its rows when dropped.
#[derive(Debug)]
pub struct Ermrest {
    directory: TempDir,
    port: u16,
    options: Vec<String>,
    tls: bool,
    server: FakeServer,
}

impl Ermrest {
    /// Starts a server with `options`, those that `ermrest_server.py --help` shows. It can be made to fail by
    /// [`Ermrest::set_faults`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(options: &[&str]) -> Self {
        Self::launch(options, false)
    }

    /// Starts a TLS server with a certificate for `localhost`, signed by
    /// [`Faktory::ca_file`](crate::Faktory::ca_file), unless `options` name another one.
    ///
    /// Requests of this type use plain connections, so they do not work with it.
    ///
    /// # Panics
    /// As [`Ermrest::start`].
    pub fn start_tls(options: &[&str]) -> Self {
        Self::launch(options, true)
    }

    fn launch(options: &[&str], tls: bool) -> Self {
        let directory = tempfile::Builder::new().prefix("ermrest-").tempdir().expect("a directory");
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut made =
            Self { directory, port: free_port(), options, tls, server: FakeServer::new("ERMrest") };
        made.start_again();
        made
    }

    /// Base address of the catalog, without a trailing slash.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://localhost:{}/ermrest/catalog/1", self.port)
    }

    /// TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Rows of `table`, unordered. The request is not logged.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn rows(&self, table: &str) -> Vec<Map<String, Value>> {
        let rows = self.ask("GET", &format!("/_rows/{table}"), &[], "").json();
        serde_json::from_value(rows).expect("rows")
    }

    /// Inserts `rows` into `table` through the public API, which sends change notices. `token` is that of
    /// `--token`.
    ///
    /// # Panics
    /// If they are refused.
    pub fn insert(&self, table: &str, rows: &Value, token: &str) {
        let path = format!("/ermrest/catalog/1/entity/{table}");
        let bearer = format!("Authorization: Bearer {token}");
        let headers = ["Content-Type: application/json", &bearer];
        let reply = wait_for("an insert that no other write aborts", || {
            let reply = self.ask("POST", &path, &headers, &rows.to_string());
            (reply.status != 503).then_some(reply)
        });
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Inserts `count` rows with `state`, numbered from 1, into the table `Foo`.
    ///
    /// # Panics
    /// As [`Ermrest::insert`].
    pub fn insert_foo(&self, count: u32, state: &str) {
        let rows: Vec<Value> = (1..=count).map(|id| json!({ "id": id, "state": state })).collect();
        self.insert("Foo", &rows.into(), "");
    }

    /// Injects faults; `ermrest_server.py` lists the keys.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn set_faults(&self, faults: &Value) {
        let reply = self.ask("POST", "/_faults", &[], &faults.to_string());
        assert_eq!(reply.status, 200, "{}", reply.body);
    }

    /// Last requests of other clients, and inserts of this type: `method`, `path` as sent, `headers` in lower
    /// case.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn requests(&self) -> Vec<Value> {
        serde_json::from_value(self.log()["requests"].clone()).expect("requests")
    }

    /// Number of responses to `method` with the status `code`.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn response_count(&self, method: &str, code: u16) -> u64 {
        self.log()["statuses"][format!("{method} {code}")].as_u64().unwrap_or_default()
    }

    /// The log: `requests`, `statuses`, `connections`, `writers`.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn log(&self) -> Value {
        self.ask("GET", "/_log", &[], "").json()
    }

    /// Process id of the server.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Number of rows of `table` with this state.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn count(&self, table: &str, state: &str) -> u64 {
        let path = format!("/ermrest/catalog/1/aggregate/{table}/state={state}/n:=cnt(RID)");
        self.ask("GET", &path, &[], "").json()[0]["n"].as_u64().expect("a count")
    }

    /// Stops the server; [`Ermrest::start_again`] restores its rows.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn stop(&mut self) {
        self.server.stop();
    }

    /// Kills the server; rows written since its start are lost.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn kill_nine(&mut self) {
        self.server.kill_nine();
    }

    /// Starts a stopped or killed server at the same address.
    ///
    /// # Panics
    /// If it does not start; its output is on standard error.
    pub fn start_again(&mut self) {
        // Only notices need a package.
        let amqp = self.options.iter().any(|option| option == "--amqp");
        let mut command = if amqp { Command::new(python()) } else { Command::new("python3") };
        command.arg(peers().join("ermrest_server.py")).args(["--port", &self.port.to_string(), "--faults"]);
        command.arg("--state").arg(self.directory.path().join("rows.json"));
        if self.tls {
            let folder = peers().join("tls");
            command.arg("--tls").args([folder.join("server.pem"), folder.join("server.key")]);
        }
        command.args(&self.options).arg("--end-with-stdin");
        self.server.start(command);
    }

    /// Suspends the process with SIGSTOP: connections stay open, and nothing is answered until
    /// [`Ermrest::thaw`].
    ///
    /// # Panics
    /// If the server is not running.
    pub fn freeze(&self) {
        self.server.freeze();
    }

    /// Resumes the process.
    ///
    /// # Panics
    /// If the server is not running.
    pub fn thaw(&self) {
        self.server.thaw();
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpReply {
        http_tcp(SocketAddr::from(([127, 0, 0, 1], self.port)), method, path, headers, body)
    }
}
