//! The original catalog agent: a Python program on the library deriva from PyPI.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::Value;

use crate::{
    Rabbit,
    python::{peers, site_environment},
};

/// An action of an agent on a row.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// Kind of action.
    pub step: AgentStep,
    /// The row's `id`.
    pub id: i64,
    /// Time of the action, seconds since 1970.
    pub at_secs: f64,
}

/// Kinds of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStep {
    /// The row was claimed.
    Claimed,
    /// The row was completed.
    Completed,
}

/// Running agent that claims and completes the `actionable` rows of the table `Foo`. It is killed when
/// dropped.
#[derive(Debug)]
pub struct DerivaAgent {
    agent: Child,
    done: Receiver<String>,
}

impl DerivaAgent {
    /// Starts an agent on the catalog at `url` that claims up to `limit` rows at once.
    ///
    /// `broker` sends its change notices and must be [`Rabbit::shared`], at AMQP's default port: deriva
    /// supports no other.
    ///
    /// # Panics
    /// If Python or the packages cannot be installed.
    pub fn start(url: &str, broker: &Rabbit, limit: u32, name: &str) -> Self {
        let mut command = Command::new(deriva_python());
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(peers().join("deriva_agent.py"));
        command.args([url, &broker.host(), &limit.to_string(), name]);
        // The agent ends when its standard input closes, even if the test is killed.
        let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let lines = BufReader::new(agent.stdout.take().expect("piped")).lines();
        let (say, done) = channel();
        // Ends with the agent or with its receiver.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { agent, done }
    }

    /// Actions since the last call.
    ///
    /// # Panics
    /// If the agent prints an unknown action.
    pub fn events(&mut self) -> Vec<AgentEvent> {
        self.done.try_iter().map(|line| parsed(&line)).collect()
    }

    /// Resident memory, bytes.
    ///
    /// # Panics
    /// If it has ended.
    pub fn resident_bytes(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.agent.id())).expect("a running agent");
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        kib.map(|kib: u64| kib * 1024).expect("a running agent")
    }
}

/// Python interpreter with the library deriva.
///
/// # Panics
/// If Python or the packages cannot be installed.
pub fn deriva_python() -> PathBuf {
    site_environment("deriva", "deriva-requirements.txt")
}

/// Claims rows with the library's `state_change_once` until none is left. `folder` has a `my_agent.py` with a
/// `row_transform_func`.
///
/// # Panics
/// If the library reports an error, or cannot be installed.
pub fn deriva_state_changes(url: &str, folder: &Path, query: &str, update: &str) {
    let mut command = Command::new(deriva_python());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(peers().join("deriva_once.py"));
    let output = command.arg(url).arg(folder).args([query, update]).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Time-outs and retries that the library takes from the block `session` of `file`, a `config.json`.
///
/// # Panics
/// As [`deriva_state_changes`].
pub fn deriva_session(file: &Path) -> Value {
    let mut command = Command::new(deriva_python());
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(peers().join("deriva_session.py"));
    let output = command.arg(file).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("an object")
}

impl Drop for DerivaAgent {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}

fn parsed(line: &str) -> AgentEvent {
    let said: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("an agent says {line:?}"));
    let step = match said["event"].as_str() {
        Some("claimed") => AgentStep::Claimed,
        Some("completed") => AgentStep::Completed,
        _ => panic!("an agent says {line:?}"),
    };
    AgentEvent {
        step,
        id: said["id"].as_i64().expect("a number"),
        at_secs: said["at"].as_f64().expect("a time"),
    }
}
