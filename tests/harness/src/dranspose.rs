//! The real dranspose 0.2.0 from PyPI: its processes, detectors for its ingesters, and a check of what its
//! workers received.
//!
//! It is installed once in a Python environment below `target/`. Each test binary imports it once, in a fork
//! server that starts a process in less than 100 ms.

mod deployment;
mod ingester;
mod map;
mod scan_check;
mod source;

pub use deployment::Deployment;
pub use ingester::{Implementation, Ingester, IngesterSpec};
pub use map::{Map, Scan};
pub use scan_check::{DeliveredEvents, check_scan};
pub use source::{Source, SourceMessage, header, image, item, malformed_messages, series, series_end};

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{python::site_environment, wait_for};

/// Process of dranspose (controller, worker, reducer, ..). It is killed when dropped.
#[derive(Debug)]
pub struct DransposeProcess {
    pid: i64,
    log: PathBuf,
    ended: Option<i64>,
}

impl DransposeProcess {
    /// Starts `program` (`dranspose` or `uvicorn` with arguments) in `directory`, with its output in the file
    /// `log`.
    ///
    /// # Panics
    /// If Python or the packages cannot be installed.
    pub fn start(program: &[&str], environment: &[(&str, &str)], directory: &Path, log: &Path) -> Self {
        let environment: serde_json::Map<_, _> =
            environment.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let order = json!({"start": program, "env": environment, "directory": directory, "log": log});
        let pid = ask(&order)["pid"].as_i64().expect("a process");
        Self { pid, log: log.to_owned(), ended: None }
    }

    /// Output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        ask(&json!({"signal": signal.as_raw(), "pid": self.pid}));
    }

    /// Exit code, or the signal that ended the process as a negative number.
    pub fn ended(&mut self) -> Option<i64> {
        self.ended = self.ended.or_else(|| ask(&json!({"ended": self.pid}))["code"].as_i64());
        self.ended
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill_nine(mut self) {
        self.signal(Signal::KILL);
        wait_for("a killed part to end", || self.ended());
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn terminate(mut self) -> i64 {
        self.signal(Signal::TERM);
        wait_for("a part to end", || self.ended())
    }
}

impl Drop for DransposeProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            wait_for("a killed part to end", || self.ended());
        }
    }
}

/// Process that forks all others. It ends with all of them when its standard input closes, even if the test
/// is killed.
struct ForkServer {
    _process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn ask(order: &Value) -> Value {
    static FORK_SERVER: OnceLock<Mutex<ForkServer>> = OnceLock::new();
    // Answers are complete lines, so a lock poisoned by a panic is usable.
    let mut fork_server =
        FORK_SERVER.get_or_init(|| Mutex::new(fork_server())).lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(fork_server.orders, "{order}").expect("the fork server takes orders");
    let mut line = String::new();
    fork_server.answers.read_line(&mut line).expect("the fork server answers");
    serde_json::from_str(&line)
        .unwrap_or_else(|error| panic!("{error}: the fork server answers {order} with {line:?}"))
}

fn fork_server() -> ForkServer {
    let mut command = our_python();
    // Ctrl-C reaches it through its standard input only.
    command.arg(programs().join("parts.py")).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("Python starts");
    let orders = process.stdin.take().expect("piped");
    let mut answers = BufReader::new(process.stdout.take().expect("piped"));
    let mut line = String::new();
    answers.read_line(&mut line).expect("the fork server speaks");
    assert_eq!(line, "ready\n", "dranspose cannot be imported");
    ForkServer { _process: process, orders, answers }
}

/// Folder of the test programs that run with dranspose.
pub fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop");
    folder.canonicalize().expect("a folder of ours")
}

/// Python interpreter with dranspose.
pub fn python() -> PathBuf {
    site_environment("dranspose", "dranspose-requirements.txt")
}

/// Runs a Python program of `tests/interop` and returns its output.
///
/// # Panics
/// If it fails.
pub fn run_program(program: &str, arguments: &[&str]) -> String {
    run(our_python().arg(programs().join(program)).args(arguments))
}

/// As [`run_program`], with the newest cbor2 and without dranspose.
///
/// # Panics
/// If it fails.
pub fn run_with_cbor2(program: &str, arguments: &[&str]) -> String {
    let python = site_environment("cbor2", "cbor2-requirements.txt");
    run(Command::new(python).arg(programs().join(program)).args(arguments))
}

/// Command that runs the interpreter without writing bytecode files.
fn our_python() -> Command {
    let mut command = Command::new(python());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {said}\ntests/run installs python3-venv; the packages come from PyPI"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
