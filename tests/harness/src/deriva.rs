//! The original that the catalog's agents take the place of: an agent on the Python library deriva, from PyPI.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use serde_json::Value;

use crate::{
    Rabbit,
    python::{environment, peers},
};

/// What an agent has done with a row.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// What.
    pub step: AgentStep,
    /// The row's `id`.
    pub id: i64,
    /// When, seconds since 1970.
    pub at_secs: f64,
}

/// A step in the life of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStep {
    /// It is claimed.
    Claimed,
    /// It is complete.
    Completed,
}

/// A running agent that claims the rows of the table `Foo` that are `actionable`, and completes them. Dropped, it is gone.
#[derive(Debug)]
pub struct DerivaAgent {
    agent: Child,
    done: Receiver<String>,
}

impl DerivaAgent {
    /// Starts an agent on the catalog at `url`, which hears of changes from `broker` and claims `limit` rows at once. The broker is one of
    /// [`Rabbit::start_at_default_port`]: the library knows no other port.
    ///
    /// # Panics
    /// If Python or the packages cannot be had.
    pub fn start(url: &str, broker: &Rabbit, limit: u32, name: &str) -> Self {
        let mut command = Command::new(environment("deriva", "deriva-requirements.txt"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(peers().join("deriva_agent.py"));
        command.args([url, &broker.host(), &limit.to_string(), name]);
        // It ends with its standard input: also when the test's process is killed.
        let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python starts");
        let lines = BufReader::new(agent.stdout.take().expect("piped")).lines();
        let (say, done) = channel();
        // It ends with the agent, or when nobody listens any more.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { agent, done }
    }

    /// What it has done since it was asked last.
    ///
    /// # Panics
    /// If it says what no agent says.
    pub fn events(&mut self) -> Vec<AgentEvent> {
        self.done.try_iter().map(|line| parsed(&line)).collect()
    }

    /// What it holds of memory now, bytes.
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

impl Drop for DerivaAgent {
    fn drop(&mut self) {
        // It may have ended already.
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
