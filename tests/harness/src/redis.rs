//! A Redis of one's own: on a loopback port, in a temporary directory, without persistence unless it is asked for.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{child_logs, eventually, wait_for};

const SERVER: &str = "/usr/bin/redis-server";

/// Ends the server as soon as standard input is closed: on drop, or when the test's process is gone, however it ended.
const GUARD: &str =
    r#"cat >/dev/null; [ -s pid ] && kill -9 "$(cat pid)" 2>/dev/null; cd / && rm -rf "$BASE""#;

/// A running, stopped or killed server. Dropped, it is gone with its directory.
#[derive(Debug)]
pub struct Redis {
    base: PathBuf,
    port: u16,
    kept: bool,
    server: Option<Child>,
    guard: Child,
}

impl Redis {
    /// Starts a server that forgets everything when it ends.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> Self {
        Self::new(false)
    }

    /// Starts a server that has its data again after a stop or a kill.
    ///
    /// # Panics
    /// As [`Redis::start`].
    pub fn start_persistent() -> Self {
        Self::new(true)
    }

    fn new(kept: bool) -> Self {
        assert!(Path::new(SERVER).exists(), "{SERVER} is missing: install redis-server, as tests/run does");
        // Not removed when dropped: the guard does that, after the server.
        let base = tempfile::Builder::new().prefix("redis-").tempdir().expect("a directory").keep();
        let guard = Command::new("sh")
            .args(["-c", GUARD])
            .current_dir(&base)
            .env("BASE", &base)
            .stdin(Stdio::piped())
            // An interrupt at the terminal is not for it.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        child_logs::note(&base.join("log"));
        let mut redis = Self { base, port: crate::free_port(), kept, server: None, guard };
        redis.start_again();
        redis
    }

    /// Where it is: `redis://…/0`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks it to end, and waits for it.
    ///
    /// # Panics
    /// If it is not running.
    pub fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    /// Ends it as a power cut would.
    ///
    /// # Panics
    /// If it is not running.
    pub fn kill_nine(&mut self) {
        self.end(Signal::KILL);
    }

    /// Starts it after [`Redis::stop`] or [`Redis::kill_nine`] on the same port: empty, or [`Redis::start_persistent`] with its data.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn start_again(&mut self) {
        assert!(self.server.is_none(), "the server is running");
        let log = fs::File::options().create(true).append(true).open(self.base.join("log")).expect("a log");
        let mut command = Command::new(SERVER);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", if self.kept { "yes" } else { "no" }]);
        command.args(["--pidfile", "pid", "--dir"]).arg(&self.base).current_dir(&self.base);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log).process_group(0);
        self.server = Some(command.spawn().expect("redis-server runs"));
        wait_for("a Redis", || {
            let ended = self.server.as_mut().is_some_and(|server| server.try_wait().ok().flatten().is_some());
            let said = || fs::read_to_string(self.base.join("log")).unwrap_or_default();
            assert!(!ended, "redis-server ends: {}", said());
            let mut wire = Wire::open(self.port)?;
            // While it reads its file it answers with an error.
            (wire.ask(&["PING"])? == json!("PONG")).then_some(())
        });
    }

    /// Removes all keys, as an administrator might.
    pub fn flush(&self) {
        self.command(&["FLUSHALL"]);
    }

    /// Runs one command: strings as JSON strings (what is not UTF-8 is replaced), numbers, arrays, null.
    ///
    /// # Panics
    /// If there is no answer, or an error.
    pub fn command(&self, words: &[&str]) -> Value {
        let answer = Wire::open(self.port).and_then(|mut wire| wire.ask(words));
        let answer = answer.unwrap_or_else(|| panic!("Redis has no answer to {words:?}"));
        assert!(answer.get("error").is_none(), "{words:?}: {answer}");
        answer
    }

    /// Runs all `commands` in one transaction; the answers.
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

    /// A key that holds text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.command(&["GET", key]).as_str().map(str::to_owned)
    }

    /// The entries of a stream whose only field is `data`, which is JSON: ids and values.
    ///
    /// # Panics
    /// If an entry is of another kind.
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
        let mut server = self.server.take().expect("a running server");
        kill_process(Pid::from_child(&server), signal).expect("the server is ours");
        server.wait().expect("its end");
        // The guard must not find a number that is someone else's by then.
        let _ = fs::remove_file(self.base.join("pid"));
        eventually("Redis is gone", || TcpStream::connect(("127.0.0.1", self.port)).is_err());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            let _ = server.kill();
            let _ = server.wait();
            let _ = fs::remove_file(self.base.join("pid"));
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// One connection that speaks RESP2.
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

/// A port of loopback that nobody has now. It is given once in this process, and the system gives it to no connection, so that
/// a program that is about to listen finds it free.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below the ports that the system gives to connections. Other processes begin elsewhere.
    let (first, count) = (12_000, 20_000);
    let begin = std::process::id().wrapping_mul(769);
    let tried = (0..count).map(|_| first + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count);
    let mut ports = tried.filter_map(|port| u16::try_from(port).ok());
    ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).expect("a free port")
}
