//! The real dranspose 0.2.0 from PyPI: its parts as processes, sources for its ingesters, and a judge of what came of a scan.
//!
//! It lives in a Python environment that is made once below `target/`. Each test binary imports it once, in a process that
//! forks for every part: a part is there within a tenth of a second.

mod facility;
mod ingester;
mod judge;
mod map;
mod source;

pub use facility::Facility;
pub use ingester::{Ingester, Kind, Spec};
pub use judge::{Judged, judge};
pub use map::{Map, Scan};
pub use source::{Item, Source, garbage, header, image, item, series, series_end};

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use serde_json::{Value, json};

use crate::wait_for;

/// A process of dranspose. Dropped, it is killed.
#[derive(Debug)]
pub struct Part {
    pid: i64,
    log: PathBuf,
    ended: Option<i64>,
}

impl Part {
    /// Starts `program` (`dranspose` or `uvicorn` with their arguments) in `directory`; what it says goes to `log`.
    ///
    /// # Panics
    /// If Python or the packages cannot be had.
    pub fn start(program: &[&str], environment: &[(&str, &str)], directory: &Path, log: &Path) -> Self {
        let environment: serde_json::Map<_, _> =
            environment.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let order = json!({"start": program, "env": environment, "directory": directory, "log": log});
        let pid = ask(&order)["pid"].as_i64().expect("a process");
        Self { pid, log: log.to_owned(), ended: None }
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        ask(&json!({"signal": signal.as_raw(), "pid": self.pid}));
    }

    /// Its exit code, or the signal that ended it, as a negative number.
    pub fn ended(&mut self) -> Option<i64> {
        self.ended = self.ended.or_else(|| ask(&json!({"ended": self.pid}))["code"].as_i64());
        self.ended
    }

    /// SIGKILL, and waits for the end.
    pub fn kill_nine(mut self) {
        self.signal(Signal::KILL);
        wait_for("a killed part to end", || self.ended());
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn terminate(mut self) -> i64 {
        self.signal(Signal::TERM);
        wait_for("a part to end", || self.ended())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            wait_for("a killed part to end", || self.ended());
        }
    }
}

/// The process that forks. It ends, and all parts with it, when its standard input does: also when the test is killed.
struct Nursery {
    _process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn ask(order: &Value) -> Value {
    static NURSERY: OnceLock<Mutex<Nursery>> = OnceLock::new();
    // What it answers is whole even if a test panicked in between.
    let mut nursery =
        NURSERY.get_or_init(|| Mutex::new(nursery())).lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(nursery.orders, "{order}").expect("the nursery takes orders");
    let mut line = String::new();
    nursery.answers.read_line(&mut line).expect("the nursery answers");
    serde_json::from_str(&line)
        .unwrap_or_else(|error| panic!("{error}: the nursery answers {order} with {line:?}"))
}

fn nursery() -> Nursery {
    let mut command = our_python();
    // An interrupt at the terminal ends it through its standard input.
    command.arg(programs().join("parts.py")).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("Python starts");
    let orders = process.stdin.take().expect("piped");
    let mut answers = BufReader::new(process.stdout.take().expect("piped"));
    let mut line = String::new();
    answers.read_line(&mut line).expect("the nursery speaks");
    assert_eq!(line, "ready\n", "dranspose cannot be imported");
    Nursery { _process: process, orders, answers }
}

/// Where our own programs are that run with dranspose.
pub(crate) fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop");
    folder.canonicalize().expect("a folder of ours")
}

/// The Python with dranspose, from PyPI once for each change of the versions.
pub fn python() -> PathBuf {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = harness.join("../../target/peers");
    fs::create_dir_all(&home).expect("a directory below target/");
    let lock = File::create(home.join("dranspose.lock")).expect("a lock file");
    // Other tests may be making it.
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let (venv, installed) = (home.join("dranspose"), home.join("dranspose.txt"));
    let versions = harness.join("../peers/dranspose-constraints.txt");
    let wanted = fs::read_to_string(&versions).expect("the list of versions");
    let python = venv.join("bin/python");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "dranspose", "-c"];
        run(Command::new(&python).args(install).arg(&versions));
        fs::write(&installed, wanted).expect("note what is installed");
    }
    python
}

/// Runs one of our Python programs to its end; what it printed.
///
/// # Panics
/// If it fails.
pub fn run_program(program: &str, arguments: &[&str]) -> String {
    run(our_python().arg(programs().join(program)).args(arguments))
}

/// That Python for a program of ours: it leaves nothing beside it.
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
