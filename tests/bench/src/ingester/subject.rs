//! The ingester under measurement, and the controller's part towards it.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::Result;
use orchestrator_harness::{Redis, dranspose, eventually, free_port, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::{load::STREAM, process::Process};

const CONFIG: &str = "dranspose:ingester:bench-ingester:config";

/// Source of the frames.
#[derive(Debug, Clone, Copy)]
pub(super) enum Upstream {
    /// A STINS detector at a port of this machine.
    Detector(u16),
    /// The class `BenchImages` of `tests/interop`, with this number of bytes of pixels.
    Class(usize),
}

impl Upstream {
    /// Keys of the stream.
    fn keys(self) -> String {
        match self {
            Self::Detector(port) => {
                format!("source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:{port}\"\n")
            }
            Self::Class(_) => "source = \"site_ingesters:BenchImages\"\n".to_owned(),
        }
    }
}

/// A running ingester. Dropped, it is killed.
pub(super) struct Ingester<'a> {
    pub(super) process: Process,
    /// Where workers connect to.
    pub(super) port: u16,
    /// From the start of the process until its key was in Redis, milliseconds.
    pub(super) start_ms: f64,
    redis: &'a Redis,
    _directory: TempDir,
}

impl<'a> Ingester<'a> {
    /// Starts it, with one stream from `upstream`; `egress` is what is kept for one worker, bytes.
    pub(super) fn start(
        binary: &Path,
        redis: &'a Redis,
        upstream: Upstream,
        egress: Option<u64>,
    ) -> Result<Self> {
        redis.flush();
        let directory = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let (file, port) = (directory.path().join("orchestrator.toml"), free_port());
        let (url, name) = (redis.url(), "bench-ingester");
        let egress = egress.map(|bytes| format!("egress_bytes_per_peer = {bytes}\n")).unwrap_or_default();
        let (source, mut python) = (upstream.keys(), String::new());
        if let Upstream::Class(bytes) = upstream {
            let (python3, programs) = (dranspose::python(), dranspose::programs());
            python = format!(
                "python = \"{}\"\nenv = {{ PYTHONPATH = \"{}\", ORCHESTRATOR_BENCH_BYTES = \"{bytes}\" }}\n",
                python3.display(),
                programs.display()
            );
        }
        let config = format!(
            r#"admin.listen = ""
[[ingester]]
name = "{name}"
listen = "127.0.0.1:{port}"
redis_url = "{url}"
{egress}{python}[[ingester.stream]]
name = "{STREAM}"
{source}"#
        );
        fs::write(&file, config)?;
        let log = File::create(directory.path().join("log"))?;
        let mut command = Command::new(fs::canonicalize(binary)?);
        command.args(["run", "--only", "ingester", "--config"]).arg(&file).current_dir(directory.path());
        command.stdout(log.try_clone()?).stderr(log);
        let begun = Instant::now();
        let process = Process::start(&mut command)?;
        while redis.text(CONFIG).is_none() {
            let said = || fs::read_to_string(directory.path().join("log")).unwrap_or_default();
            anyhow::ensure!(begun.elapsed().as_secs() < 30, "the ingester does not register: {}", said());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let start_ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok(Self { process, port, start_ms, redis, _directory: directory })
    }

    fn published(&self) -> Option<Value> {
        serde_json::from_str(&self.redis.text(CONFIG)?).ok()
    }

    /// Waits until `count` workers have sent a ping.
    pub(super) fn wait_for_workers(&self, workers: usize) {
        eventually("the workers to be heard", || {
            self.published().is_some_and(|config| {
                config["connected_workers"].as_object().is_some_and(|them| them.len() == workers)
            })
        });
    }

    /// Begins a mapping and waits until it is taken.
    pub(super) fn begin_mapping(&self) -> String {
        let mapping = Uuid::new_v4().to_string();
        let update = json!({
            "mapping_uuid": mapping, "parameters_version": {}, "target_parameters_hash": null,
            "active_streams": [STREAM], "finished": false,
        });
        self.redis.command(&["XADD", "dranspose:controller:updates", "*", "data", &update.to_string()]);
        wait_for("the mapping to be taken", || {
            self.published().filter(|config| config["mapping_uuid"] == *mapping)
        });
        mapping
    }

    /// Adds an entry of assignments.
    pub(super) fn assign(&self, mapping: &str, entry: &str) {
        self.redis.command(&["XADD", &format!("dranspose:assigned:{mapping}"), "*", "data", entry]);
    }
}
