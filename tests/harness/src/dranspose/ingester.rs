//! The ingester under test: ours, in place of the Python one, or the Python one itself, to see whether the
//! tests check_scan rightly.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use super::DransposeProcess;
use crate::{Instance, UnitFile, free_port};

/// Implementation of the ingester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    /// `orchestrator as dranspose-ingester`, or `as dranspose-http-ingester`.
    Ours,
    /// `dranspose ingester`, or `http_ingester`.
    Python,
}

impl Implementation {
    /// Ours, unless `ORCHESTRATOR_INTEROP_INGESTER` is `python`.
    pub fn under_test() -> Self {
        if given().is_some_and(|which| which == "python") { Self::Python } else { Self::Ours }
    }
}

/// `python`, or the path of a program in place of the binary of the tests.
fn given() -> Option<OsString> {
    std::env::var_os("ORCHESTRATOR_INTEROP_INGESTER")
}

/// Command line and environment of an ingester, the same for both implementations.
#[derive(Debug, Clone)]
pub struct IngesterSpec {
    class: String,
    upstream: Upstream,
    streams: Vec<String>,
    name: String,
    port: u16,
    environment: Vec<(String, String)>,
    settings: Vec<String>,
}

/// Source of the frames.
#[derive(Debug, Clone)]
enum Upstream {
    /// Address that the ingester connects to.
    Dialled(String),
    /// Port of the ingester that the source posts to.
    Posting(u16),
}

impl IngesterSpec {
    /// Ingester `STREAM-ingester` of the STINS source at `upstream`, on a free port.
    pub fn stins(upstream: &str, stream: &str) -> Self {
        Self::class("ZmqPullSingleIngester", upstream, stream)
    }

    /// Ingester of dranspose's class `class`.
    pub fn class(class: &str, upstream: &str, stream: &str) -> Self {
        Self::new(class, Upstream::Dialled(upstream.to_owned()), stream)
    }

    /// Ingester of a site's class `class` in `tests/interop`, which runs in the Python environment of
    /// dranspose.
    pub fn site_class(class: &str, upstream: &str, streams: &[&str]) -> Self {
        let mut spec = Self::class(class, upstream, streams[0]);
        spec.streams = streams.iter().map(|stream| (*stream).to_owned()).collect();
        spec.name = format!("{}-ingester", streams.join("_"));
        spec.of_site()
    }

    /// Ingester of a site's HTTP application `app` in `tests/interop`, which is posted to at `port`.
    pub fn site_app(app: &str, port: u16, stream: &str) -> Self {
        Self::http(app, port, stream).of_site()
    }

    /// Adds the Python environment of dranspose.
    fn of_site(self) -> Self {
        let python = super::python();
        let folder = python.parent().expect("a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        self.with("PATH", &format!("{folder}:{path}"))
            .with("PYTHONPATH", &super::programs().display().to_string())
            .with("PYTHONDONTWRITEBYTECODE", "1")
    }

    /// Ingester of a source that posts over HTTP to `port`. `app` is the original's ASGI application.
    pub fn http(app: &str, port: u16, stream: &str) -> Self {
        Self::new(app, Upstream::Posting(port), stream)
    }

    fn new(class: &str, upstream: Upstream, stream: &str) -> Self {
        Self {
            class: class.to_owned(),
            upstream,
            streams: vec![stream.to_owned()],
            name: format!("{stream}-ingester"),
            port: free_port(),
            environment: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self.with("INGESTER_NAME", name)
    }

    /// Moves the ingester to another free port.
    #[must_use]
    pub fn with_new_port(mut self) -> Self {
        self.port = free_port();
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.environment.push((variable.to_owned(), value.to_owned()));
        self
    }

    /// Sets a key of our ingester's section, such as `worker_idle_secs=1`.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        self.settings.extend(["--set".to_owned(), format!("ingester.{}.{assignment}", self.name)]);
        self
    }

    /// Redis key of the ingester's state.
    pub fn key(&self) -> String {
        format!("dranspose:ingester:{}:config", self.name)
    }

    /// Name of the ingester.
    pub fn ingester_name(&self) -> &str {
        &self.name
    }

    pub(super) fn start(&self, binary: &Path, redis: &str, directory: &Path) -> Ingester {
        let url = format!("tcp://127.0.0.1:{}", self.port);
        let mut environment = vec![("INGESTER_URL", url.as_str()), ("REDIS_URL", redis)];
        environment.extend(self.environment.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let (command, [class, upstream], address) = match &self.upstream {
            Upstream::Dialled(url) => ("ingester", ["--ingesterclass", "--upstream_url"], url.clone()),
            Upstream::Posting(port) => ("http_ingester", ["--ingesterapp", "--port"], port.to_string()),
        };
        let mut arguments = vec![class, &self.class, upstream, &address];
        let list = format!("{:?}", self.streams);
        match &self.streams[..] {
            [stream] => arguments.extend(["--name", stream]),
            _ => environment.push(("INGESTER_STREAMS", &list)),
        }
        let log = directory.join(format!("{}-{}.log", self.name, self.port));
        let process = match Implementation::under_test() {
            Implementation::Python => {
                let program = [&["dranspose", command][..], &arguments].concat();
                Process::Python(DransposeProcess::start(&program, &environment, directory, &log))
            }
            Implementation::Ours => {
                let drop_in = format!("dranspose-{}", command.replace('_', "-"));
                let settings = self.settings.iter().map(String::as_str);
                let words: Vec<_> = ["as", &drop_in].into_iter().chain(arguments).chain(settings).collect();
                let binary = given().unwrap_or_else(|| binary.into());
                ours(binary.as_ref(), &words, &environment, directory, &log)
            }
        };
        Ingester { process, log }
    }
}

/// Starts `binary` in `directory`, with its output in the file `log`.
fn ours(
    binary: &Path,
    words: &[&str],
    environment: &[(&str, &str)],
    directory: &Path,
    log: &Path,
) -> Process {
    let said = File::options().create(true).append(true).open(log).expect("a log file");
    let mut program = Command::new(binary);
    program.args(words).envs(environment.iter().copied());
    program.env("RUNTIME_DIRECTORY", directory).env_remove("ORCHESTRATOR_SOCKET");
    program.current_dir(directory).stdin(Stdio::null());
    program.stdout(said.try_clone().expect("a second handle")).stderr(said);
    Process::Ours(Instance::spawn(program))
}

/// Running ingester. It is killed when dropped.
#[derive(Debug)]
pub struct Ingester {
    process: Process,
    log: PathBuf,
}

#[derive(Debug)]
enum Process {
    Ours(Instance),
    Python(DransposeProcess),
}

impl Ingester {
    /// Starts what `unit` starts: dranspose, or `binary` in place of the orchestrator.
    pub(super) fn of_unit(unit: &UnitFile, binary: &Path, directory: &Path) -> Self {
        let log = directory.join("unit.log");
        let (words, environment) = (unit.command(), unit.environment());
        let process = if words[0].ends_with("/orchestrator") {
            ours(binary, &words[1..], &environment, directory, &log)
        } else {
            let program = [&["dranspose"], &words[1..]].concat();
            Process::Python(DransposeProcess::start(&program, &environment, directory, &log))
        };
        Self { process, log }
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill_nine(self) {
        match self.process {
            Process::Ours(instance) => instance.kill_nine(),
            Process::Python(part) => part.kill_nine(),
        }
    }

    /// Sends SIGTERM and waits for the end. Returns true if the exit code is 0.
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

    /// Returns true if the process has ended.
    pub fn ended(&mut self) -> bool {
        match &mut self.process {
            Process::Ours(instance) => instance.ended().is_some(),
            Process::Python(part) => part.ended().is_some(),
        }
    }

    /// Process id, of ours only.
    pub fn pid(&self) -> Option<u32> {
        match &self.process {
            Process::Ours(instance) => Some(instance.pid()),
            Process::Python(_) => None,
        }
    }

    /// Output so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
