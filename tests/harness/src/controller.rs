//! The controller's part of a scan, as far as an ingester sees it: entries of two streams in Redis, and the ingester's key.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{Instance, Redis, TestEnv, eventually, free_port, wait_for};

/// Plays the controller for one ingester.
#[derive(Debug)]
pub struct Controller<'a> {
    redis: &'a Redis,
    ingester: String,
}

impl<'a> Controller<'a> {
    /// For the ingester of this name.
    pub fn new(redis: &'a Redis, ingester: &str) -> Self {
        Self { redis, ingester: ingester.to_owned() }
    }

    /// What the ingester publishes.
    pub fn ingester_state(&self) -> Option<Value> {
        serde_json::from_str(&self.redis.text(&format!("dranspose:ingester:{}:config", self.ingester))?).ok()
    }

    /// An update as controllers write it.
    pub fn update_json(mapping: &str, streams: &[&str], finished: bool) -> Value {
        json!({
            "mapping_uuid": mapping, "parameters_version": {}, "target_parameters_hash": null,
            "active_streams": streams, "finished": finished,
        })
    }

    /// Writes an update without waiting for anything.
    pub fn publish_update(&self, update: &Value) {
        self.redis.command(&["XADD", "dranspose:controller:updates", "*", "data", &update.to_string()]);
    }

    /// Does the ingester say that it follows `mapping`?
    pub fn is_active(&self, mapping: &str) -> bool {
        self.ingester_state().is_some_and(|state| state["mapping_uuid"] == mapping)
    }

    /// Begins a mapping and waits until it is taken.
    ///
    /// # Panics
    /// If it is not in time.
    pub fn start_mapping(&self, mapping: &str, streams: &[&str]) {
        self.publish_update(&Self::update_json(mapping, streams, false));
        eventually("the mapping is taken", || self.is_active(mapping));
    }

    /// Assigns events: number, and of each stream its workers.
    pub fn assign_events(&self, mapping: &str, events: &[(u64, Value)]) {
        let event =
            |(number, workers): &(u64, Value)| json!({"event_number": number, "assignments": workers});
        let entry: Vec<_> = events.iter().map(event).collect();
        let key = format!("dranspose:assigned:{mapping}");
        self.redis.command(&["XADD", &key, "*", "data", &json!(entry).to_string()]);
    }

    /// Has the ingester answered that `mapping` is finished?
    pub fn is_finished(&self, mapping: &str) -> bool {
        let expected = json!({"state": "finished", "source": "ingester", "ingester": self.ingester});
        let answers = self.redis.entries(&format!("dranspose:ready:{mapping}"));
        answers.iter().any(|(_, answer)| *answer == expected)
    }
}

/// A site with one ingester, `eiger-ingester`, whose one stream `eiger` is a STINS source, and a Redis.
#[derive(Debug)]
pub struct IngesterEnv {
    /// Directory, log and admin socket.
    pub base: TestEnv,
    /// Its Redis.
    pub redis: Redis,
    /// Where it listens for workers.
    pub port: u16,
    config: PathBuf,
}

impl IngesterEnv {
    /// For the binary at `binary`, with a source at `upstream`; `keys` are lines of TOML for the ingester.
    pub fn new(binary: impl Into<PathBuf>, upstream: &str, keys: &str) -> Self {
        let (base, redis, port) = (TestEnv::new(binary), Redis::start(), free_port());
        let config = base.path().join("ingester.toml");
        let admin = format!(
            "[admin]\nlisten = \"\"\nunix_socket = \"{}\"\nchaos = true\n",
            base.admin_socket().display()
        );
        fs::write(&config, admin).expect("write the configuration");
        let env = Self { base, redis, port, config };
        env.add_section("eiger", upstream, port, keys);
        env
    }

    /// Adds another ingester before the start, called after its one stream, which is a STINS source at `upstream`. Gives the port
    /// where it listens for workers.
    pub fn add_ingester(&self, stream: &str, upstream: &str) -> u16 {
        let port = free_port();
        self.add_section(stream, upstream, port, "");
        port
    }

    fn add_section(&self, stream: &str, upstream: &str, port: u16, keys: &str) {
        let text = format!(
            "[[ingester]]\nname = \"{stream}-ingester\"\nlisten = \"127.0.0.1:{port}\"\nredis_url = \"{url}\"\n\
             spill_dir = \"{spill}\"\n{keys}\n\
             [[ingester.stream]]\nname = \"{stream}\"\nsource = \"stins\"\nupstream_url = \"{upstream}\"\n",
            url = self.redis.url(),
            spill = self.base.path().display(),
        );
        let before = fs::read_to_string(&self.config).expect("the configuration so far");
        fs::write(&self.config, before + &text).expect("write the configuration");
    }

    /// Starts it and waits until it is in Redis.
    pub fn start(&self) -> Instance {
        let instance = self.spawn();
        wait_for("the ingester is in Redis", || self.controller().ingester_state());
        eventually("it follows the controller", || self.base.cli(&["tree"]).1.contains("redis up"));
        instance
    }

    /// Starts it without waiting.
    pub fn spawn(&self) -> Instance {
        let mut command = self.base.bare_command();
        command.args(["run", "--config"]).arg(&self.config);
        Instance::spawn(command)
    }

    /// Plays the controller for the one that [`IngesterEnv::add_ingester`] added for `stream`.
    pub fn controller_of(&self, stream: &str) -> Controller<'_> {
        Controller::new(&self.redis, &format!("{stream}-ingester"))
    }

    /// Plays its controller.
    pub fn controller(&self) -> Controller<'_> {
        Controller::new(&self.redis, "eiger-ingester")
    }

    /// A metric of one of its children; 0 as long as there is none.
    pub fn metric(&self, child: &str, name: &str) -> i64 {
        let (_, text, _) = self.base.cli(&["tree", &format!("ingester/eiger-ingester/{child}"), "--json"]);
        let tree: Value = serde_json::from_str(&text).unwrap_or_default();
        let metrics = tree["root"]["metrics"].as_array().into_iter().flatten();
        metrics.filter(|metric| metric["name"] == name).filter_map(|metric| metric["value"].as_i64()).sum()
    }
}
