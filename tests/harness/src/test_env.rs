//! Test environment: directory, configuration and sockets of the instances that a test starts.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Database, Instance, UnitFile, Worker, child_logs, eventually, http};

/// Directory with input files, database, sockets and log of one instance at a time. It is removed when
/// dropped.
#[derive(Debug)]
pub struct TestEnv {
    directory: TempDir,
    binary: PathBuf,
    shell: Option<String>,
    extra: Vec<String>,
}

impl Drop for TestEnv {
    /// Fails the test if a child sent a message that its specification does not declare.
    fn drop(&mut self) {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let undeclared = log.lines().find(|line| line.contains("which it does not declare"));
        assert!(undeclared.is_none() || std::thread::panicking(), "{undeclared:?}");
    }
}

impl TestEnv {
    /// Creates an empty environment for the program `binary` (in tests:
    /// `env!("CARGO_BIN_EXE_orchestrator")`).
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let directory =
            tempfile::Builder::new().prefix("test-env-").tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("fetchers")).expect("an input directory");
        let site = Self { directory, binary: binary.into(), shell: None, extra: Vec::new() };
        child_logs::note(&site.log_path());
        site
    }

    /// Adds `--set SECTION.KEY=VALUE` to every start.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        self.extra.extend(["--set".to_owned(), assignment.to_owned()]);
        self
    }

    /// Starts the binary from a shell that runs `prelude` first, such as `umask 077` or `ulimit -n 1024`.
    #[must_use]
    pub fn shell(mut self, prelude: &str) -> Self {
        self.shell = Some(format!("{prelude}; exec \"$0\" \"$@\""));
        self
    }

    /// Removes the prelude of [`TestEnv::shell`].
    #[must_use]
    pub fn without_shell(mut self) -> Self {
        self.shell = None;
        self
    }

    /// Replaces the binary for the next starts.
    pub fn set_binary(&mut self, binary: impl Into<PathBuf>) {
        self.binary = binary.into();
    }

    /// Directory of the environment.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
    /// Path of the binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }
    /// Path of the queue's database.
    pub fn database_path(&self) -> PathBuf {
        self.path().join("queue.db")
    }
    /// Path of the worker socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("worker.sock")
    }
    /// Path of the admin socket.
    pub fn admin_socket(&self) -> PathBuf {
        self.path().join("admin.sock")
    }
    /// Input directory of fetcher files.
    pub fn input_dir(&self) -> PathBuf {
        self.path().join("fetchers")
    }
    /// Path of a fetcher file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.input_dir().join(name)
    }
    /// Path of the log.
    pub fn log_path(&self) -> PathBuf {
        self.path().join("log")
    }
    /// Log of all instances so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Writes a fetcher file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).expect("write a fetcher file");
    }

    /// Appends to a fetcher file.
    pub fn append(&self, name: &str, text: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.file(name))
            .expect("open a fetcher file");
        file.write_all(text.as_ref()).expect("append to a fetcher file");
    }

    /// Renames a fetcher file.
    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.file(from), self.file(to)).expect("rename a fetcher file");
    }

    /// Removes a fetcher file.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).expect("remove a fetcher file");
    }

    /// Command that runs the queue and the admin socket.
    pub fn command(&self) -> Command {
        let mut command = self.bare_command();
        command.arg("run");
        let paths = [
            ("queue.database", self.database_path()),
            ("queue.input_dir", self.input_dir()),
            ("queue.socket", self.socket()),
            ("admin.unix_socket", self.admin_socket()),
        ];
        for (key, path) in paths {
            command.args(["--set".to_owned(), format!("{key}={}", path.display())]);
        }
        command.args(["--set", "admin.listen=\"\"", "--set", "admin.chaos=true"]);
        command.args(&self.extra);
        command
    }

    /// Command that runs one subsystem and the admin socket with further `arguments`.
    pub(crate) fn command_of(&self, subsystem: &str, arguments: &[String]) -> Command {
        let mut command = self.bare_command();
        let socket = format!("admin.unix_socket={}", self.admin_socket().display());
        command.args(["run", "--only", subsystem, "--set", "admin.listen=\"\"", "--set", &socket]);
        command.args(arguments);
        command
    }

    /// Starts an instance with a configuration file and waits until the queue serves workers.
    pub fn start_with(&self, config: &Path) -> Instance {
        let mut command = self.bare_command();
        command.arg("run").arg("--config").arg(config);
        let instance = Instance::spawn(command);
        instance.await_service(self);
        instance
    }

    /// Starts `command` and waits until the admin endpoint answers.
    pub fn start_by(&self, command: Command) -> Instance {
        let instance = Instance::spawn(command);
        eventually("the endpoint to answer", || self.cli(&["tree"]).0 == 0);
        instance
    }

    /// Status of the actor at `path`, from its console.
    pub(crate) fn status_of(&self, path: &str) -> Value {
        let url = format!("/v1/consoles/{path}/status");
        let reply = http(&self.admin_socket(), "POST", &url, &["Content-Type: application/json"], "{}");
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }

    /// Command of the binary without arguments, in this directory. Its output is appended to
    /// [`TestEnv::log_path`].
    pub fn bare_command(&self) -> Command {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log file");
        let mut command = match &self.shell {
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script]).arg(&self.binary);
                shell
            }
            None => Command::new(&self.binary),
        };
        command.current_dir(self.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        command.env_remove("RUNTIME_DIRECTORY").env("ORCHESTRATOR_SOCKET", self.admin_socket());
        command
    }

    /// As [`TestEnv::bare_command`], in an environment as systemd gives it: without that of the test.
    pub fn service_command(&self) -> Command {
        let mut command = self.bare_command();
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    /// Command that `unit` starts.
    ///
    /// # Panics
    /// If the unit starts another program.
    pub fn command_of_unit(&self, unit: &UnitFile) -> Command {
        let words = unit.command();
        assert_eq!(words[0], "/usr/local/bin/orchestrator");
        let mut command = self.service_command();
        command.args(&words[1..]).envs(unit.environment());
        if unit.has_runtime_directory() {
            command.env("RUNTIME_DIRECTORY", self.path());
        }
        command
    }

    /// Starts an instance and waits until the worker socket accepts connections.
    pub fn start(&self) -> Instance {
        let instance = self.spawn();
        instance.await_service(self);
        instance
    }

    /// Starts an instance without waiting.
    pub fn spawn(&self) -> Instance {
        Instance::spawn(self.command())
    }

    /// Runs a client command. Returns exit code, standard output and standard error.
    pub fn cli(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(&self.binary);
        command.current_dir(self.path()).env("ORCHESTRATOR_SOCKET", self.admin_socket()).args(arguments);
        let output = command.output().expect("run a client command");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Connects a worker.
    ///
    /// # Panics
    /// If the socket does not accept within the deadline.
    pub fn worker(&self) -> Worker {
        crate::wait_for("the worker socket to accept", || Worker::connect(&self.socket()).ok())
    }

    /// Opens a second connection to the queue's database.
    pub fn database(&self) -> Database {
        Database::open(&self.database_path())
    }
}
