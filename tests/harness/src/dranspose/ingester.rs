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
    /// `orchestrator as dranspose-ingester`, or `as dranspose-http-ingester`.
    Ours,
    /// `dranspose ingester`, or `http_ingester`.
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
    upstream: Upstream,
    stream: String,
    name: String,
    port: u16,
    environment: Vec<(String, String)>,
}

/// Where frames come from.
#[derive(Debug, Clone)]
enum Upstream {
    /// The ingester dials it.
    Dialled(String),
    /// It posts to this port of the ingester.
    Posting(u16),
}

impl Spec {
    /// For the STINS source at `upstream`, with the name that follows from the stream, on a port of its own.
    pub fn stins(upstream: &str, stream: &str) -> Self {
        Self::class("ZmqPullSingleIngester", upstream, stream)
    }

    /// For a source of another class.
    pub fn class(class: &str, upstream: &str, stream: &str) -> Self {
        Self::new(class, Upstream::Dialled(upstream.to_owned()), stream)
    }

    /// For a source that posts over HTTP to `port`. `app` is what serves it in the original.
    pub fn http(app: &str, port: u16, stream: &str) -> Self {
        Self::new(app, Upstream::Posting(port), stream)
    }

    fn new(class: &str, upstream: Upstream, stream: &str) -> Self {
        Self {
            class: class.to_owned(),
            upstream,
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
        let (command, option, upstream) = match &self.upstream {
            Upstream::Dialled(url) => ("ingester", "-u", url.clone()),
            Upstream::Posting(port) => ("http_ingester", "-p", port.to_string()),
        };
        let arguments = ["-c", &self.class, option, &upstream, "-n", &self.stream];
        let log = directory.join(format!("{}-{}.log", self.name, self.port));
        let process = match Kind::under_test() {
            Kind::Python => {
                let program = [&["dranspose", command][..], &arguments].concat();
                Process::Python(Part::start(&program, &environment, directory, &log))
            }
            Kind::Ours => {
                let said = File::options().create(true).append(true).open(&log).expect("a log file");
                let mut program = Command::new(binary);
                program.arg("as").arg(format!("dranspose-{}", command.replace('_', "-")));
                program.args(arguments).envs(environment);
                program.env("RUNTIME_DIRECTORY", directory).env_remove("ORCHESTRATOR_SOCKET");
                program.current_dir(directory).stdin(Stdio::null());
                program.stdout(said.try_clone().expect("a second handle")).stderr(said);
                Process::Ours(Instance::spawn(program))
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
