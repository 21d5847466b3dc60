//! The ingester under test: ours, in place of the Python one, or the Python one itself, to see whether the tests judge rightly.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use super::Part;
use crate::{Instance, free_port};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `orchestrator as dranspose-ingester`.
    Ours,
    /// `dranspose ingester`.
    Python,
}

impl Kind {
    /// Ours, unless `ORCHESTRATOR_INTEROP_INGESTER` is `python`.
    pub fn under_test() -> Self {
        let python = std::env::var("ORCHESTRATOR_INTEROP_INGESTER").is_ok_and(|which| which == "python");
        if python { Self::Python } else { Self::Ours }
    }
}

/// How to start one: the same command line and the same environment for both kinds.
#[derive(Debug, Clone)]
pub struct Spec {
    class: String,
    upstream: String,
    stream: String,
    name: String,
    port: u16,
    environment: Vec<(String, String)>,
}

impl Spec {
    /// For the STINS source at `upstream`, with the name that follows from the stream, on a port of its own.
    pub fn stins(upstream: &str, stream: &str) -> Self {
        Self::class("ZmqPullSingleIngester", upstream, stream)
    }

    /// For a source of another class.
    pub fn class(class: &str, upstream: &str, stream: &str) -> Self {
        Self {
            class: class.to_owned(),
            upstream: upstream.to_owned(),
            stream: stream.to_owned(),
            name: format!("{stream}-ingester"),
            port: free_port(),
            environment: Vec::new(),
        }
    }

    /// With another name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self.with("INGESTER_NAME", name)
    }

    /// On another port.
    #[must_use]
    pub fn elsewhere(mut self) -> Self {
        self.port = free_port();
        self
    }

    /// With one more variable.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.environment.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// What it is called in Redis.
    pub fn key(&self) -> String {
        format!("dranspose:ingester:{}:config", self.name)
    }

    /// Its name.
    pub fn named(&self) -> &str {
        &self.name
    }

    pub(super) fn start(&self, binary: &Path, redis: &str, directory: &Path) -> Ingester {
        let url = format!("tcp://127.0.0.1:{}", self.port);
        let mut environment = vec![("INGESTER_URL", url.as_str()), ("REDIS_URL", redis)];
        environment.extend(self.environment.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let arguments = ["-c", &self.class, "-u", &self.upstream, "-n", &self.stream];
        let log = directory.join(format!("{}-{}.log", self.name, self.port));
        let process = match Kind::under_test() {
            Kind::Python => {
                let program = [&["dranspose", "ingester"][..], &arguments].concat();
                Process::Python(Part::start(&program, &environment, directory, &log))
            }
            Kind::Ours => {
                let said = File::options().create(true).append(true).open(&log).expect("a log file");
                let mut command = Command::new(binary);
                command.args(["as", "dranspose-ingester"]).args(arguments).envs(environment);
                command.env("RUNTIME_DIRECTORY", directory).env_remove("ORCHESTRATOR_SOCKET");
                command.current_dir(directory).stdin(Stdio::null());
                command.stdout(said.try_clone().expect("a second handle")).stderr(said);
                Process::Ours(Instance::spawn(command))
            }
        };
        Ingester { process, log }
    }
}

/// A running ingester. Dropped, it is killed.
#[derive(Debug)]
pub struct Ingester {
    process: Process,
    log: PathBuf,
}

#[derive(Debug)]
enum Process {
    Ours(Instance),
    Python(Part),
}

impl Ingester {
    /// SIGKILL, and waits for the end.
    pub fn kill_nine(self) {
        match self.process {
            Process::Ours(instance) => instance.kill_nine(),
            Process::Python(part) => part.kill_nine(),
        }
    }

    /// SIGTERM, and waits for the end: was it an orderly one?
    pub fn terminate(self) -> bool {
        match self.process {
            Process::Ours(instance) => instance.terminate().success(),
            Process::Python(part) => part.terminate() == 0,
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        match &self.process {
            Process::Ours(instance) => instance.signal(signal),
            Process::Python(part) => part.signal(signal),
        }
    }

    /// Has it ended?
    pub fn ended(&mut self) -> bool {
        match &mut self.process {
            Process::Ours(instance) => instance.ended().is_some(),
            Process::Python(part) => part.ended().is_some(),
        }
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
