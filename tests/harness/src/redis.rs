//! A private Redis server on a loopback port, in a temporary directory, with or without persistence.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            net::{SocketAddr, UnixListener},
            process::CommandExt,
        },
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{child_logs, eventually, suite, wait_for};

/// Program of the server, from `ORCHESTRATOR_TEST_REDIS`: `redis-server` unless that is `valkey-server`.
fn program() -> String {
    let name = std::env::var("ORCHESTRATOR_TEST_REDIS");
    format!("/usr/bin/{}", name.as_deref().unwrap_or("redis-server"))
}

/// Script that ends the server when its standard input closes: on drop, or when the test process ends.
const GUARD: &str =
    r#"cat >/dev/null; [ -s pid ] && kill -9 "$(cat pid)" 2>/dev/null; cd / && rm -rf "$BASE""#;

/// Server: running, stopped or killed. It is removed with its directory when dropped.
#[derive(Debug)]
pub struct Redis {
    base: PathBuf,
    port: u16,
    kept: bool,
    tls_port: Option<u16>,
    server: Option<Child>,
    guard: Child,
}

impl Redis {
    /// Starts a server without persistence.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> Self {
        Self::new(false, None)
    }

    /// Starts a server without persistence that speaks TLS on a second port.
    ///
    /// # Panics
    /// As [`Redis::start`].
    pub fn start_with_tls() -> Self {
        Self::new(false, Some(crate::free_port()))
    }

    /// Starts a server that keeps its data over a stop or a kill (append-only file).
    ///
    /// # Panics
    /// As [`Redis::start`].
    pub fn start_persistent() -> Self {
        Self::new(true, None)
    }

    fn new(kept: bool, tls_port: Option<u16>) -> Self {
        let server = program();
        assert!(suite::file(&server).exists(), "{server} is missing: tests/run installs redis-server");
        // The guard script removes it after the end of the server.
        let base = tempfile::Builder::new().prefix("redis-").tempdir().expect("a directory").keep();
        let guard = Command::new("sh")
            .args(["-c", GUARD])
            .current_dir(&base)
            .env("BASE", &base)
            .stdin(Stdio::piped())
            // Ctrl-C must not reach it.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        child_logs::note(&base.join("log"));
        let mut redis = Self { base, port: crate::free_port(), kept, tls_port, server: None, guard };
        redis.start_again();
        redis
    }

    /// Address of database 0.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Address of database 0 over TLS.
    ///
    /// # Panics
    /// If the server does not speak TLS.
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}/0", self.tls_port.expect("a server with TLS"))
    }

    /// File with the authority of the server's certificate.
    pub fn ca_file() -> PathBuf {
        crate::python::peers().join("tls/ca.pem")
    }

    /// TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it is not running.
    pub fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        self.end(Signal::KILL);
    }

    /// Suspends the server with SIGSTOP: connections stay open, and nothing is answered until
    /// [`Redis::thaw`].
    ///
    /// # Panics
    /// If it is not running.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the server.
    ///
    /// # Panics
    /// If it is not running.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let server = Pid::from_child(self.server.as_ref().expect("a running server"));
        kill_process(server, signal).expect("the server is ours");
    }

    /// Starts a stopped or killed server on the same port.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        let log = fs::File::options().create(true).append(true).open(self.base.join("log")).expect("a log");
        let mut command = suite::command(program());
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", if self.kept { "yes" } else { "no" }]);
        if let Some(port) = self.tls_port {
            let certificates = crate::python::peers().join("tls");
            command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
            if let Some(version) = suite::tls_version() {
                command.args(["--tls-protocols", &format!("TLSv{version}")]);
            }
            command.arg("--tls-cert-file").arg(certificates.join("server.pem"));
            command.arg("--tls-key-file").arg(certificates.join("server.key"));
            command.arg("--tls-ca-cert-file").arg(certificates.join("ca.pem"));
        }
        command.args(["--pidfile", "pid", "--dir"]).arg(&self.base).current_dir(&self.base);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log).process_group(0);
        self.server = Some(command.spawn().expect("redis-server runs"));
        wait_for("a Redis", || {
            let ended = self.server.as_mut().is_some_and(|server| server.try_wait().ok().flatten().is_some());
            let said = || fs::read_to_string(self.base.join("log")).unwrap_or_default();
            assert!(!ended, "redis-server ends: {}", said());
            let mut wire = Wire::open(self.port)?;
            // It answers with an error while it loads its data.
            (wire.ask(&["PING"])? == json!("PONG")).then_some(())
        });
    }

    /// Removes all keys.
    pub fn flush(&self) {
        self.command(&["FLUSHALL"]);
    }

    /// Runs one command. Returns the answer as JSON; invalid UTF-8 is replaced.
    ///
    /// # Panics
    /// If there is no answer, or the answer is an error.
    pub fn command(&self, words: &[&str]) -> Value {
        let answer = Wire::open(self.port).and_then(|mut wire| wire.ask(words));
        let answer = answer.unwrap_or_else(|| panic!("Redis has no answer to {words:?}"));
        assert!(answer.get("error").is_none(), "{words:?}: {answer}");
        answer
    }

    /// Runs `commands` in one transaction and returns the answers.
    ///
    /// # Panics
    /// As [`Redis::command`].
    pub fn transaction(&self, commands: &[&[&str]]) -> Value {
        let mut wire = Wire::open(self.port).expect("Redis is there");
        for command in [&[&["MULTI"][..]], commands].concat() {
            let answer = wire.ask(command).expect("an answer");
            assert!(answer.get("error").is_none(), "{command:?}: {answer}");
        }
        wire.ask(&["EXEC"]).expect("an answer")
    }

    /// Value of a string key.
    pub fn text(&self, key: &str) -> Option<String> {
        self.command(&["GET", key]).as_str().map(str::to_owned)
    }

    /// Entries of a stream with the one field `data` (JSON): ids and values.
    ///
    /// # Panics
    /// If an entry has other fields.
    pub fn entries(&self, key: &str) -> Vec<(String, Value)> {
        let answer = self.command(&["XRANGE", key, "-", "+"]);
        let entries = answer.as_array().expect("a stream").iter();
        entries
            .map(|entry| {
                let (id, fields) = (entry[0].as_str().expect("an id"), &entry[1]);
                assert_eq!(
                    (&fields[0], &fields[2]),
                    (&json!("data"), &Value::Null),
                    "the one field of {key}"
                );
                let data = fields[1].as_str().and_then(|text| serde_json::from_str(text).ok());
                (id.to_owned(), data.unwrap_or_else(|| panic!("no JSON in {key}: {fields}")))
            })
            .collect()
    }

    fn end(&mut self, signal: Signal) {
        self.signal(signal);
        let mut server = self.server.take().expect("a running server");
        server.wait().expect("its end");
        // The guard script must not kill a process that reuses the pid.
        let _ = fs::remove_file(self.base.join("pid"));
        eventually("Redis to end", || TcpStream::connect(("127.0.0.1", self.port)).is_err());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // The process may have ended already.
            let _ = server.kill();
            let _ = server.wait();
            let _ = fs::remove_file(self.base.join("pid"));
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// RESP2 connection.
struct Wire(BufReader<TcpStream>);

impl Wire {
    fn open(port: u16) -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        Some(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, words: &[&str]) -> Option<Value> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        self.answer()
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let line = line.trim_end();
        let (kind, rest) = (line.chars().next()?, line.get(1..)?);
        Some(match kind {
            '+' => json!(rest),
            '-' => json!({ "error": rest }),
            ':' => json!(rest.parse::<i64>().ok()?),
            '$' if rest == "-1" => Value::Null,
            '$' => {
                let mut bytes = vec![0; rest.parse::<usize>().ok()? + 2];
                self.0.read_exact(&mut bytes).ok()?;
                json!(String::from_utf8_lossy(&bytes[..bytes.len() - 2]))
            }
            '*' if rest == "-1" => Value::Null,
            '*' => {
                (0..rest.parse::<usize>().ok()?).map(|_| self.answer()).collect::<Option<Vec<_>>>()?.into()
            }
            _ => return None,
        })
    }
}

/// Returns a free TCP port below the ephemeral range, so that no outgoing connection takes it.
///
/// Each port is returned once while this process runs, also to other processes.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below the ephemeral ports. Each process starts at another offset.
    let (first, count) = (12_000, 20_000);
    let begin = std::process::id().wrapping_mul(769);
    let tried = (0..count).map(|_| first + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count);
    let mut ports = tried.filter_map(|port| u16::try_from(port).ok());
    ports.find(|port| reserve(*port) && TcpListener::bind(("0.0.0.0", *port)).is_ok()).expect("a free port")
}

/// Keeps a port from the other test programs until this process ends: a server that takes it may start
/// seconds later.
fn reserve(port: u16) -> bool {
    // The name of an abstract socket, which the kernel frees.
    let name =
        SocketAddr::from_abstract_name(format!("orchestrator-test-port-{port}")).expect("a short name");
    UnixListener::bind_addr(&name).map(std::mem::forget).is_ok()
}
