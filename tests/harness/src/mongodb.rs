//! A private MongoDB server. Debian has no package of it, so this is a fake server,
//! `tests/peers/mongo_server.py`, in a Python environment that is installed once below `target/`; or, with
//! `ORCHESTRATOR_TEST_MONGODB=secantusdb`, the independent server SecantusDB.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    fake_server::FakeServer,
    free_port,
    python::{environment, peers, python},
};

/// Running or killed server. It is removed with its documents when dropped.
#[derive(Debug)]
pub struct MongoDb {
    directory: TempDir,
    port: u16,
    user: Option<[String; 2]>,
    server: FakeServer,
}

impl MongoDb {
    /// Starts an empty server without authentication.
    ///
    /// # Panics
    /// If Python cannot be installed, or the server does not start.
    pub fn start() -> Self {
        Self::start_for(None)
    }

    /// Starts an empty server that requires `user` and `password`.
    ///
    /// # Panics
    /// As [`MongoDb::start`].
    pub fn start_with_password(user: &str, password: &str) -> Self {
        Self::start_for(Some([user.to_owned(), password.to_owned()]))
    }

    fn start_for(user: Option<[String; 2]>) -> Self {
        let directory = tempfile::Builder::new().prefix("mongodb-").tempdir().expect("a directory");
        let mut made = Self { directory, port: free_port(), user, server: FakeServer::new("MongoDB") };
        made.start_again();
        made
    }

    /// Connection string, with user and password.
    pub fn uri(&self) -> String {
        let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let named = |[user, password]: &[String; 2]| format!("{}:{}@", encoded(user), encoded(password));
        let user = self.user.as_ref().map(named).unwrap_or_default();
        format!("mongodb://{user}127.0.0.1:{}", self.port)
    }

    /// TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Inserts `documents` (extended JSON).
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn insert(&self, database: &str, collection: &str, documents: &[Value]) {
        self.documents_by(&[database, collection, "insert"], &Value::from(documents).to_string());
    }

    /// Documents of a collection in the order of `_id` (extended JSON).
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn documents(&self, database: &str, collection: &str) -> Vec<Value> {
        let found = self.documents_by(&[database, collection, "find"], "");
        serde_json::from_slice(&found).expect("an array of documents")
    }

    /// Runs pymongo on the server, independent of the client under test.
    fn documents_by(&self, arguments: &[&str], input: &str) -> Vec<u8> {
        let mut command = Command::new(python());
        command.arg(peers().join("mongo_documents.py")).arg(self.uri()).args(arguments);
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let mut stdin = client.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).expect("the client reads");
        drop(stdin);
        let output = client.wait_with_output().expect("its end");
        assert!(output.status.success(), "{arguments:?}: see standard error");
        output.stdout
    }

    /// Kills the server. Acknowledged writes are kept, as with a journal.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        self.server.kill_nine();
    }

    /// Refuses writes with the code and the text `error`, such as `13 not authorized`; None accepts them.
    ///
    /// # Panics
    /// If the directory is gone.
    pub fn refuse_writes(&self, error: Option<&str>) {
        let refusal = self.directory.path().join("refusal");
        match error {
            // The server may read it at any time.
            Some(error) => fs::write(refusal.with_extension("new"), error)
                .and_then(|()| fs::rename(refusal.with_extension("new"), &refusal)),
            None => fs::remove_file(&refusal),
        }
        .expect("write to the server's directory");
    }

    /// Suspends the process with SIGSTOP: connections stay open, and nothing is answered until
    /// [`MongoDb::thaw`].
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

    /// Starts a killed server at the same address with the same documents.
    ///
    /// # Panics
    /// If it does not start; its output is on standard error.
    pub fn start_again(&mut self) {
        let is_secantus =
            std::env::var_os("ORCHESTRATOR_TEST_MONGODB").is_some_and(|name| name == "secantusdb");
        let (python, program) = match is_secantus {
            true => (environment("secantus", "secantus-requirements.txt"), "secantus_server.py"),
            false => (python(), "mongo_server.py"),
        };
        let mut command = Command::new(python);
        command.arg(peers().join(program)).arg(self.port.to_string());
        command.arg(self.directory.path().join("journal")).args(self.user.iter().flatten());
        self.server.start(command);
    }
}
