//! A dranspose deployment around an ingester: Redis, controller, reducer, and workers that record their
//! events.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{DransposeProcess, Ingester, IngesterSpec, Map, Scan, programs};
use crate::{HttpReply, Redis, UnitFile, eventually, free_port, http_tcp, wait_for};

/// Running dranspose without ingesters. Everything is killed when dropped; a failed test prints the last log
/// lines.
#[derive(Debug)]
pub struct Deployment {
    controller: Option<DransposeProcess>,
    reducer: Option<DransposeProcess>,
    workers: BTreeMap<String, DransposeProcess>,
    ingesters: BTreeSet<String>,
    /// Redis of the deployment.
    pub redis: Redis,
    binary: PathBuf,
    code: String,
    /// `dranspose`, or `numbered` (`tests/interop/numbered.py`).
    worker_program: &'static str,
    port: u16,
    directory: TempDir,
}

impl Deployment {
    /// Starts controller and reducer with a Redis without persistence. `binary` is the orchestrator.
    pub fn start(binary: &str) -> Self {
        Self::start_with(Redis::start(), binary)
    }

    /// Starts controller and reducer with `redis`.
    pub fn start_with(redis: Redis, binary: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("dranspose-").tempdir().expect("a directory");
        let mut deployment = Self {
            controller: None,
            reducer: None,
            workers: BTreeMap::new(),
            ingesters: BTreeSet::new(),
            redis,
            binary: binary.into(),
            code: "recorder:Recorder".to_owned(),
            worker_program: "dranspose",
            port: free_port(),
            directory,
        };
        deployment.start_controller();
        deployment.start_reducer();
        deployment
    }

    /// Runs `code` (`MODULE:CLASS` in [`Deployment::programs`]) in the workers in place of the recorder.
    #[must_use]
    pub fn with_worker_code(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    /// Starts workers that match messages by event number, as several ingesters of one stream need.
    #[must_use]
    pub fn with_numbered_workers(mut self) -> Self {
        self.worker_program = "numbered";
        self
    }

    fn start_reducer(&mut self) {
        let (own, url) = (free_port().to_string(), format!("tcp://127.0.0.1:{}", free_port()));
        let program = ["dranspose", "reducer", "-p", &own, "-c", "recorder:Counter"];
        self.reducer = Some(self.part("reducer", &program, &[("REDUCER_URL", &url)]));
    }

    /// Restarts controller, reducer and workers, which do not survive a loss of Redis; ingesters keep
    /// running.
    pub fn start_all_again(&mut self) {
        let names: Vec<_> = self.workers.keys().cloned().collect();
        (self.controller, self.reducer) = (None, None);
        self.workers.clear();
        // A killed controller's lock expires only after 10 s.
        let stale = self.redis.command(&["KEYS", "dranspose:*er:*config"]);
        let stale = stale.as_array().into_iter().flatten().filter_map(Value::as_str);
        for key in stale.filter(|key| !key.contains(":ingester:")).chain(["dranspose:controller_lock"]) {
            self.redis.command(&["DEL", key]);
        }
        self.start_controller();
        self.start_reducer();
        self.start_workers(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Directory for files of the test.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the controller, always on the same port.
    pub fn start_controller(&mut self) {
        let port = self.port.to_string();
        let program = ["uvicorn", "dranspose.controller:app", "--port", &port];
        self.controller = Some(self.part("controller", &program, &[]));
    }

    /// Stops the controller with SIGTERM; it removes its keys.
    ///
    /// # Panics
    /// If there is none.
    pub fn stop_controller(&mut self) {
        self.controller.take().expect("a controller").terminate();
    }

    /// Starts an ingester and waits until it is registered in Redis.
    pub fn start_ingester(&mut self, spec: &IngesterSpec) -> Ingester {
        self.registered(spec, |deployment| {
            spec.start(&deployment.binary, &deployment.redis.url(), deployment.path())
        })
    }

    /// As [`Deployment::start_ingester`], with what `unit` starts. `spec` has its name.
    pub fn start_unit(&mut self, spec: &IngesterSpec, unit: &UnitFile) -> Ingester {
        self.registered(spec, |deployment| Ingester::of_unit(unit, &deployment.binary, deployment.path()))
    }

    fn registered(&mut self, spec: &IngesterSpec, start: impl FnOnce(&Self) -> Ingester) -> Ingester {
        let known = || self.ingester_state(spec).map(|config| config["service_uuid"].clone());
        let before = known();
        let mut ingester = start(self);
        wait_for("an ingester's configuration in Redis", || {
            assert!(!ingester.ended(), "the ingester has ended:\n{}", ingester.log());
            known().filter(|now| Some(now) != before.as_ref())
        });
        self.ingesters.insert(spec.ingester_name().to_owned());
        ingester
    }

    /// State that an ingester publishes in Redis.
    pub fn ingester_state(&self, spec: &IngesterSpec) -> Option<Value> {
        self.redis.text(&spec.key()).and_then(|text| serde_json::from_str(&text).ok())
    }

    /// Starts workers and waits until they are connected to all ingesters.
    pub fn start_workers(&mut self, names: &[&str]) {
        // A worker loses results while it finds no reducer, and the scan would never end.
        eventually("the reducer", || self.redis.text("dranspose:reducer:reducer:config").is_some());
        self.spawn_workers(names);
        self.wait_until_connected();
    }

    fn spawn_workers(&mut self, names: &[&str]) {
        for name in names {
            let program = [self.worker_program, "worker", "-n", name, "-c", &self.code];
            let tags = json!(["generic", name]).to_string();
            let worker = self.part(name, &program, &[("WORKER_TAGS", &tags)]);
            self.workers.insert((*name).to_owned(), worker);
        }
    }

    /// Starts a debug worker and waits until it is connected. Returns the HTTP port that serves its last
    /// events.
    pub fn debug_worker(&mut self, name: &str) -> u16 {
        let port = free_port();
        let program = ["uvicorn", "dranspose.debug_worker:app", "--port", &port.to_string()];
        let environment = [("WORKER_NAME", name), ("WORKER_TAGS", "[\"debug\"]")];
        let worker = self.part(name, &program, &environment);
        self.workers.insert(name.to_owned(), worker);
        self.wait_until_connected();
        port
    }

    /// Kills a worker and removes its key, which would expire after 10 s.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn kill_worker(&mut self, name: &str) {
        self.workers.remove(name).expect("a worker").kill_nine();
        self.redis.command(&["DEL", &format!("dranspose:worker:{name}:config")]);
    }

    /// Kills a worker and starts another one with the same name at once.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn replace_worker(&mut self, name: &str) {
        self.workers.remove(name).expect("a worker").kill_nine();
        let before = self.redis.text(&format!("dranspose:worker:{name}:config"));
        self.spawn_workers(&[name]);
        eventually("the new worker's key", || {
            self.redis.text(&format!("dranspose:worker:{name}:config")) != before
        });
        self.wait_until_connected();
    }

    /// Stops waiting for an ingester that was stopped for good.
    pub fn forget_ingester(&mut self, spec: &IngesterSpec) {
        self.ingesters.remove(spec.ingester_name());
    }

    /// Waits until the controller lists exactly these workers and ingesters, all connected to each other.
    pub fn wait_until_connected(&self) {
        eventually("the controller to answer", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        wait_for("ingesters and workers to know each other", || {
            let (ingesters, workers) = (self.states("ingester"), self.states("worker"));
            let list = |all: &[Value], field: &str| -> BTreeSet<String> {
                all.iter().filter_map(|one| one[field].as_str()).map(str::to_owned).collect()
            };
            let uuids = (list(&ingesters, "service_uuid"), list(&workers, "service_uuid"));
            let hears = |one: &Value| {
                let heard = one["connected_workers"].as_object();
                heard.is_some_and(|heard| uuids.1.iter().all(|uuid| heard.contains_key(uuid)))
            };
            let dials = |one: &Value| {
                let known = one["ingesters"].as_array();
                known.is_some_and(|known| list(known, "service_uuid") == uuids.0)
            };
            let complete = list(&ingesters, "name") == self.ingesters
                && list(&workers, "name").iter().eq(self.workers.keys())
                && ingesters.iter().all(hears)
                && workers.iter().all(dials);
            // The controller's view is up to half a second old.
            let seen = complete.then(|| self.get("config"))?;
            let same = |kind: &str| list(seen[kind].as_array().map_or(&[], Vec::as_slice), "service_uuid");
            let current = seen["reducer"].is_object() && (same("ingesters"), same("workers")) == uuids;
            current.then_some(())
        });
    }

    /// States that all processes of a kind publish.
    fn states(&self, kind: &str) -> Vec<Value> {
        let keys = self.redis.command(&["KEYS", &format!("dranspose:{kind}:*:config")]);
        let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
        keys.filter_map(|key| self.redis.text(key).and_then(|text| serde_json::from_str(&text).ok()))
            .collect()
    }

    /// Posts a mapping. All ingesters have accepted it when this returns.
    ///
    /// # Panics
    /// If the controller refuses it for a reason other than a stream that is not registered yet.
    pub fn post_mapping(&self, map: &Map) -> Scan {
        let body = map.body();
        let uuid = wait_for("the controller to take a map", || {
            let reply = self.request("POST", "sequence", &body);
            assert!([200, 400].contains(&reply.status), "{}: {}", reply.status, reply.body);
            (reply.status == 200).then(|| reply.json().as_str().expect("a uuid").to_owned())
        });
        Scan { uuid, map: map.clone() }
    }

    /// Stops the current scan.
    pub fn stop_scan(&self) {
        assert_eq!(self.request("POST", "stop", "").status, 200);
    }

    /// Sets a parameter.
    pub fn set_parameter(&self, parameter: &str, value: &str) {
        assert_eq!(self.request("POST", &format!("parameter/{parameter}"), value).status, 200);
    }

    /// Waits until all processes have the controller's parameters.
    ///
    /// # Panics
    /// If they do not in time.
    pub fn wait_for_parameters(&self) {
        eventually("all parts to have the parameters", || {
            let config = self.get("config");
            let parts = ["ingesters", "workers"]
                .iter()
                .flat_map(|kind| config[kind].as_array().into_iter().flatten());
            parts.chain([&config["reducer"]]).all(|part| part["parameters_hash"] == config["parameters_hash"])
        });
    }

    /// Folder of the Python modules that workers and reducer run.
    pub fn programs(&self) -> PathBuf {
        programs()
    }

    /// Sends a GET request to the controller's API.
    pub fn get(&self, what: &str) -> Value {
        self.request("GET", what, "").json()
    }

    fn request(&self, method: &str, what: &str, body: &str) -> HttpReply {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        http_tcp(address, method, &format!("/api/v1/{what}"), &["Content-Type: application/json"], body)
    }

    /// Waits until all events of the scan are processed and all processes have reported its end.
    pub fn wait_for_end(&self, scan: &Scan) {
        // Polling Redis is cheaper than polling the controller.
        wait_for("the controller to end the scan", || {
            let updates = self.redis.entries("dranspose:controller:updates");
            updates
                .iter()
                .find(|(_, update)| update["mapping_uuid"] == *scan.uuid && update["finished"] == true)?;
            (self.redis.entries(&format!("dranspose:ready:{}", scan.uuid)).iter())
                .filter(|(_, report)| report["state"] == "finished" && report["source"] == "ingester")
                .map(|_| ())
                .nth(self.ingesters.len() - 1)
        });
        eventually("all parts to be done with the scan", || self.get("progress")["finished"] == true);
    }

    /// The controller's assignments: `{"event_number": 0, "assignments": {"stream": ["worker"]}}` for each
    /// event.
    pub fn assignments(&self, scan: &Scan) -> Vec<Value> {
        let entries = self.redis.entries(&format!("dranspose:assigned:{}", scan.uuid));
        entries.iter().flat_map(|(_, list)| list.as_array().expect("a list").clone()).collect()
    }

    /// Events of a scan that a worker's code received, in order.
    pub fn recorded_events(&self, worker: &str, scan: &Scan) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join(format!("{worker}.jsonl"))).unwrap_or_default();
        // The last line may be incomplete.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let events = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        events.filter(|event| event["mapping"] == *scan.uuid).collect()
    }

    /// Names of the workers, without debug workers.
    pub fn worker_names(&self) -> impl Iterator<Item = &str> {
        self.workers.keys().map(String::as_str).filter(|name| !name.starts_with("debug"))
    }

    /// Waits until workers have received `count` events of the scan in total.
    pub fn wait_for_events(&self, scan: &Scan, count: usize) {
        eventually("workers to get events", || {
            self.worker_names().map(|name| self.recorded_events(name, scan).len()).sum::<usize>() >= count
        });
    }

    /// Sends a signal to a worker.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn signal_worker(&self, worker: &str, signal: Signal) {
        self.workers.get(worker).expect("a worker").signal(signal);
    }

    /// Blocks a worker in its current or next event until [`Deployment::release_worker`].
    pub fn hold_worker(&self, worker: &str) {
        fs::write(self.path().join(format!("hold-{worker}")), "").expect("write a file");
    }

    /// Ends [`Deployment::hold_worker`].
    pub fn release_worker(&self, worker: &str) {
        fs::remove_file(self.path().join(format!("hold-{worker}"))).expect("it was held");
    }

    fn part(&self, name: &str, program: &[&str], environment: &[(&str, &str)]) -> DransposeProcess {
        let recorder = self.path().display().to_string();
        let url = self.redis.url();
        let common = [("REDIS_URL", url.as_str()), ("RECORDER_DIR", &recorder)];
        let environment = [&common, environment].concat();
        DransposeProcess::start(program, &environment, &programs(), &self.path().join(format!("{name}.log")))
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        for entry in fs::read_dir(self.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log" || extension == "jsonl") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(25)..].join("\n");
                eprintln!("== {} ==\n{end}", json!(path));
            }
        }
    }
}
