//! The dranspose controller as an ingester sees it: entries of two Redis streams, and the ingester's key.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{Instance, Redis, TestEnv, eventually, free_port, wait_for};

/// Fake controller of one ingester.
#[derive(Debug)]
pub struct Controller<'a> {
    redis: &'a Redis,
    ingester: String,
}

impl<'a> Controller<'a> {
    /// Creates a controller for the ingester `ingester`.
    pub fn new(redis: &'a Redis, ingester: &str) -> Self {
        Self { redis, ingester: ingester.to_owned() }
    }

    /// State that the ingester publishes in Redis.
    pub fn ingester_state(&self) -> Option<Value> {
        serde_json::from_str(&self.redis.text(&format!("dranspose:ingester:{}:config", self.ingester))?).ok()
    }

    /// Entry of the update stream, in the controller's format.
    pub fn update_json(mapping: &str, streams: &[&str], finished: bool) -> Value {
        json!({
            "mapping_uuid": mapping, "parameters_version": {}, "target_parameters_hash": null,
            "active_streams": streams, "finished": finished,
        })
    }

    /// Appends an update to the stream without waiting for the ingester.
    pub fn publish_update(&self, update: &Value) {
        self.redis.command(&["XADD", "dranspose:controller:updates", "*", "data", &update.to_string()]);
    }

    /// Returns true if the ingester's published state has `mapping`.
    pub fn is_active(&self, mapping: &str) -> bool {
        self.ingester_state().is_some_and(|state| state["mapping_uuid"] == mapping)
    }

    /// Publishes a new mapping and waits until the ingester has accepted it.
    ///
    /// # Panics
    /// If the ingester does not accept it in time.
    pub fn start_mapping(&self, mapping: &str, streams: &[&str]) {
        self.publish_update(&Self::update_json(mapping, streams, false));
        eventually("the ingester to accept the mapping", || self.is_active(mapping));
    }

    /// Assigns events. Each has its number and the workers of each stream.
    pub fn assign_events(&self, mapping: &str, events: &[(u64, Value)]) {
        let event =
            |(number, workers): &(u64, Value)| json!({"event_number": number, "assignments": workers});
        let entry: Vec<_> = events.iter().map(event).collect();
        let key = format!("dranspose:assigned:{mapping}");
        self.redis.command(&["XADD", &key, "*", "data", &json!(entry).to_string()]);
    }

    /// Reports, as the worker `worker`, that it has finished events.
    pub fn report_finished(&self, mapping: &str, worker: &str, events: &[u64]) {
        let report = json!({
            "state": "idle", "source": "worker", "completed": events, "worker": worker,
            "has_result": vec![true; events.len()], "processing_times": null,
        });
        self.redis.command(&[
            "XADD",
            &format!("dranspose:ready:{mapping}"),
            "*",
            "data",
            &report.to_string(),
        ]);
    }

    /// Returns true if the ingester has reported the end of `mapping`.
    pub fn is_finished(&self, mapping: &str) -> bool {
        let expected = json!({"state": "finished", "source": "ingester", "ingester": self.ingester});
        let answers = self.redis.entries(&format!("dranspose:ready:{mapping}"));
        answers.iter().any(|(_, answer)| *answer == expected)
    }
}

/// Environment with a Redis and one ingester, `eiger-ingester`, whose stream `eiger` is a STINS source.
#[derive(Debug)]
pub struct IngesterEnv {
    /// Directory, log and admin socket.
    pub base: TestEnv,
    /// Redis of the ingester.
    pub redis: Redis,
    /// TCP port for workers.
    pub port: u16,
    config: PathBuf,
}

impl IngesterEnv {
    /// Creates an environment with a source at `upstream`. `keys` are lines of TOML for the ingester.
    pub fn new(binary: impl Into<PathBuf>, upstream: &str, keys: &str) -> Self {
        Self::with_source(TestEnv::new(binary), "stins", upstream, keys)
    }

    /// Creates an environment whose stream is the class `class` of `tests/interop`, in Python with dranspose.
    pub fn with_class(binary: impl Into<PathBuf>, class: &str) -> Self {
        let modules = crate::dranspose::programs();
        let keys = format!(
            "python = \"{}\"\nenv = {{ PYTHONDONTWRITEBYTECODE = \"1\", PYTHONPATH = \"{}\" }}",
            crate::dranspose::python().display(),
            modules.display()
        );
        Self::with_source(TestEnv::new(binary), class, "tcp://127.0.0.1:9", &keys)
    }

    /// Creates an environment in `base` whose stream has the source `source`.
    pub fn with_source(base: TestEnv, source: &str, upstream: &str, keys: &str) -> Self {
        let (redis, port) = (Redis::start(), free_port());
        let config = base.path().join("ingester.toml");
        let admin = format!(
            "[admin]\nlisten = \"\"\nunix_socket = \"{}\"\nchaos = true\n",
            base.admin_socket().display()
        );
        fs::write(&config, admin).expect("write the configuration");
        let env = Self { base, redis, port, config };
        env.add_section(("eiger", source), upstream, port, keys);
        env
    }

    /// Adds an ingester `STREAM-ingester` with one STINS source at `upstream`; call it before the start.
    ///
    /// Returns the TCP port for its workers.
    pub fn add_ingester(&self, stream: &str, upstream: &str) -> u16 {
        let port = free_port();
        self.add_section((stream, "stins"), upstream, port, "");
        port
    }

    fn add_section(&self, (stream, source): (&str, &str), upstream: &str, port: u16, keys: &str) {
        let text = format!(
            "[[ingester]]\nname = \"{stream}-ingester\"\nlisten = \"127.0.0.1:{port}\"\nredis_url = \"{url}\"\n\
             spill_dir = \"{spill}\"\n{keys}\n\
             [[ingester.stream]]\nname = \"{stream}\"\nsource = \"{source}\"\nupstream_url = \"{upstream}\"\n",
            url = self.redis.url(),
            spill = self.base.path().display(),
        );
        self.append(&text);
    }

    /// Appends sections to the configuration; call it before the start.
    pub fn append(&self, text: &str) {
        let before = fs::read_to_string(&self.config).expect("the configuration so far");
        fs::write(&self.config, before + text).expect("write the configuration");
    }

    /// Starts the instance and waits until its ingester is registered in Redis.
    pub fn start(&self) -> Instance {
        let instance = self.spawn();
        wait_for("the ingester to register in Redis", || self.controller().ingester_state());
        eventually("the ingester to connect to Redis", || self.base.cli(&["tree"]).1.contains("redis up"));
        instance
    }

    /// Starts the instance without waiting.
    pub fn spawn(&self) -> Instance {
        let mut command = self.base.bare_command();
        command.args(["run", "--config"]).arg(&self.config);
        Instance::spawn(command)
    }

    /// Controller of the ingester that [`IngesterEnv::add_ingester`] added for `stream`.
    pub fn controller_of(&self, stream: &str) -> Controller<'_> {
        Controller::new(&self.redis, &format!("{stream}-ingester"))
    }

    /// Controller of `eiger-ingester`.
    pub fn controller(&self) -> Controller<'_> {
        Controller::new(&self.redis, "eiger-ingester")
    }

    /// Sum of a metric of a child of `eiger-ingester`; 0 while it is not registered.
    pub fn metric(&self, child: &str, name: &str) -> i64 {
        let (_, text, _) = self.base.cli(&["tree", &format!("ingester/eiger-ingester/{child}"), "--json"]);
        let tree: Value = serde_json::from_str(&text).unwrap_or_default();
        let metrics = tree["root"]["metrics"].as_array().into_iter().flatten();
        metrics.filter(|metric| metric["name"] == name).filter_map(|metric| metric["value"].as_i64()).sum()
    }
}
