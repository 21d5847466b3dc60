//! All that is around an ingester: a Redis, a controller, a reducer, workers that note what they get.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Ingester, Map, Part, Scan, Spec, programs};
use crate::{HttpReply, Redis, eventually, free_port, http_tcp, wait_for};

/// A running dranspose without ingesters. Dropped, all is gone; a test that fails prints the ends of the logs.
#[derive(Debug)]
pub struct Facility {
    controller: Option<Part>,
    reducer: Option<Part>,
    workers: BTreeMap<String, Part>,
    ingesters: BTreeSet<String>,
    /// Its Redis.
    pub redis: Redis,
    binary: PathBuf,
    code: String,
    port: u16,
    directory: TempDir,
}

impl Facility {
    /// Starts controller and reducer with a Redis that keeps nothing. `binary` is ours.
    pub fn start(binary: &str) -> Self {
        Self::with(Redis::start(), binary)
    }

    /// Starts controller and reducer with `redis`.
    pub fn with(redis: Redis, binary: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("dranspose-").tempdir().expect("a directory");
        let mut facility = Self {
            controller: None,
            reducer: None,
            workers: BTreeMap::new(),
            ingesters: BTreeSet::new(),
            redis,
            binary: binary.into(),
            code: "recorder:Recorder".to_owned(),
            port: free_port(),
            directory,
        };
        facility.start_controller();
        facility.start_reducer();
        facility
    }

    /// With workers that run `code`, a module of [`Facility::programs`] and its class, instead of the recorder.
    #[must_use]
    pub fn running(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    fn start_reducer(&mut self) {
        let (own, url) = (free_port().to_string(), format!("tcp://127.0.0.1:{}", free_port()));
        let program = ["dranspose", "reducer", "-p", &own, "-c", "recorder:Counter"];
        self.reducer = Some(self.part("reducer", &program, &[("REDUCER_URL", &url)]));
    }

    /// Kills controller, reducer and workers, and starts them again, but no ingester: none of them survives the loss of Redis.
    pub fn start_all_again(&mut self) {
        let names: Vec<_> = self.workers.keys().cloned().collect();
        (self.controller, self.reducer) = (None, None);
        self.workers.clear();
        // A controller that was killed holds its lock for ten seconds.
        let stale = self.redis.command(&["KEYS", "dranspose:*er:*config"]);
        let stale = stale.as_array().into_iter().flatten().filter_map(Value::as_str);
        for key in stale.filter(|key| !key.contains(":ingester:")).chain(["dranspose:controller_lock"]) {
            self.redis.command(&["DEL", key]);
        }
        self.start_controller();
        self.start_reducer();
        self.workers(&names.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// A place for a test's own files.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the controller, also after [`Facility::stop_controller`], on the same port.
    pub fn start_controller(&mut self) {
        let port = self.port.to_string();
        let program = ["uvicorn", "dranspose.controller:app", "--port", &port];
        self.controller = Some(self.part("controller", &program, &[]));
    }

    /// Ends the controller in order; it removes its keys.
    ///
    /// # Panics
    /// If there is none.
    pub fn stop_controller(&mut self) {
        self.controller.take().expect("a controller").terminate();
    }

    /// Starts an ingester and waits until it is known in Redis.
    pub fn ingester(&mut self, spec: &Spec) -> Ingester {
        let known = || self.config(spec).map(|config| config["service_uuid"].clone());
        let before = known();
        let mut ingester = spec.start(&self.binary, &self.redis.url(), self.path());
        wait_for("an ingester's configuration in Redis", || {
            assert!(!ingester.ended(), "the ingester has ended:\n{}", ingester.log());
            known().filter(|now| Some(now) != before.as_ref())
        });
        self.ingesters.insert(spec.named().to_owned());
        ingester
    }

    /// What an ingester tells of itself.
    pub fn config(&self, spec: &Spec) -> Option<Value> {
        self.redis.text(&spec.key()).and_then(|text| serde_json::from_str(&text).ok())
    }

    /// Starts workers, and waits until the controller knows that they and all ingesters know each other.
    pub fn workers(&mut self, names: &[&str]) {
        // A worker that finds no reducer looks again after a second; what it has for it meanwhile is lost, and the scan never ends.
        eventually("the reducer", || self.redis.text("dranspose:reducer:reducer:config").is_some());
        self.start_workers(names);
        self.ready();
    }

    fn start_workers(&mut self, names: &[&str]) {
        for name in names {
            let program = ["dranspose", "worker", "-n", name, "-c", &self.code];
            let tags = json!(["generic", name]).to_string();
            let worker = self.part(name, &program, &[("WORKER_TAGS", &tags)]);
            self.workers.insert((*name).to_owned(), worker);
        }
    }

    /// Starts a debug worker, and waits as for the others; the port where it tells its last events.
    pub fn debug_worker(&mut self, name: &str) -> u16 {
        let port = free_port();
        let program = ["uvicorn", "dranspose.debug_worker:app", "--port", &port.to_string()];
        let environment = [("WORKER_NAME", name), ("WORKER_TAGS", "[\"debug\"]")];
        let worker = self.part(name, &program, &environment);
        self.workers.insert(name.to_owned(), worker);
        self.ready();
        port
    }

    /// Kills a worker, and ends the ten seconds for which it stays known.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn kill_worker(&mut self, name: &str) {
        self.workers.remove(name).expect("a worker").kill_nine();
        self.redis.command(&["DEL", &format!("dranspose:worker:{name}:config")]);
    }

    /// Kills a worker and starts another one with its name at once.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn replace_worker(&mut self, name: &str) {
        self.workers.remove(name).expect("a worker").kill_nine();
        let before = self.redis.text(&format!("dranspose:worker:{name}:config"));
        self.start_workers(&[name]);
        eventually("the new worker's key", || {
            self.redis.text(&format!("dranspose:worker:{name}:config")) != before
        });
        self.ready();
    }

    /// Takes note that an ingester has gone for good.
    pub fn without(&mut self, spec: &Spec) {
        self.ingesters.remove(spec.named());
    }

    /// Waits until the controller knows that all workers and all ingesters, and none besides, know each other.
    pub fn ready(&self) {
        eventually("the controller to answer", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
        wait_for("ingesters and workers to know each other", || {
            let (ingesters, workers) = (self.all("ingester"), self.all("worker"));
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

    /// What all ingesters, or workers, tell of themselves.
    fn all(&self, kind: &str) -> Vec<Value> {
        let keys = self.redis.command(&["KEYS", &format!("dranspose:{kind}:*:config")]);
        let keys = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
        keys.filter_map(|key| self.redis.text(key).and_then(|text| serde_json::from_str(&text).ok()))
            .collect()
    }

    /// Posts a map: it is taken by all when this returns.
    ///
    /// # Panics
    /// If it is refused for other reasons than that the controller does not know all streams yet.
    pub fn post(&self, map: &Map) -> Scan {
        let body = map.body();
        let uuid = wait_for("the controller to take a map", || {
            let reply = self.request("POST", "sequence", &body);
            assert!([200, 400].contains(&reply.status), "{}: {}", reply.status, reply.body);
            (reply.status == 200).then(|| reply.json().as_str().expect("a uuid").to_owned())
        });
        Scan { uuid, map: map.clone() }
    }

    /// Ends the scan that is.
    pub fn stop_scan(&self) {
        assert_eq!(self.request("POST", "stop", "").status, 200);
    }

    /// Sets a parameter.
    pub fn set(&self, parameter: &str, value: &str) {
        assert_eq!(self.request("POST", &format!("parameter/{parameter}"), value).status, 200);
    }

    /// Waits until all parts hold the controller's parameters.
    ///
    /// # Panics
    /// If they do not in time.
    pub fn agreed(&self) {
        eventually("all parts to have the parameters", || {
            let config = self.get("config");
            let parts = ["ingesters", "workers"]
                .iter()
                .flat_map(|kind| config[kind].as_array().into_iter().flatten());
            parts.chain([&config["reducer"]]).all(|part| part["parameters_hash"] == config["parameters_hash"])
        });
    }

    /// Where the programs are that the parts run.
    pub fn programs(&self) -> PathBuf {
        programs()
    }

    /// Asks the controller.
    pub fn get(&self, what: &str) -> Value {
        self.request("GET", what, "").json()
    }

    fn request(&self, method: &str, what: &str, body: &str) -> HttpReply {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        http_tcp(address, method, &format!("/api/v1/{what}"), &["Content-Type: application/json"], body)
    }

    /// Waits until all events of the scan have been worked on and all parts have said that they are done with it.
    pub fn finished(&self, scan: &Scan) {
        // Redis answers for less than the controller.
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

    /// Who gets what in each event, by the controller: `{"event_number": 0, "assignments": {"stream": ["worker"]}}`.
    pub fn assigned(&self, scan: &Scan) -> Vec<Value> {
        let entries = self.redis.entries(&format!("dranspose:assigned:{}", scan.uuid));
        entries.iter().flat_map(|(_, list)| list.as_array().expect("a list").clone()).collect()
    }

    /// The events of a scan in a worker's order, as its code got them.
    pub fn recorded(&self, worker: &str, scan: &Scan) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join(format!("{worker}.jsonl"))).unwrap_or_default();
        // A line may be being written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let events = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        events.filter(|event| event["mapping"] == *scan.uuid).collect()
    }

    /// The names of the workers, without debug workers.
    pub fn worker_names(&self) -> impl Iterator<Item = &str> {
        self.workers.keys().map(String::as_str).filter(|name| !name.starts_with("debug"))
    }

    /// Waits until workers have begun with `count` events of the scan, in all.
    pub fn begun(&self, scan: &Scan, count: usize) {
        eventually("workers to get events", || {
            self.worker_names().map(|name| self.recorded(name, scan).len()).sum::<usize>() >= count
        });
    }

    /// A worker stays with the event in hand, or the next, until [`Facility::release`].
    pub fn hold(&self, worker: &str) {
        fs::write(self.path().join(format!("hold-{worker}")), "").expect("write a file");
    }

    /// See [`Facility::hold`].
    pub fn release(&self, worker: &str) {
        fs::remove_file(self.path().join(format!("hold-{worker}"))).expect("it was held");
    }

    fn part(&self, name: &str, program: &[&str], environment: &[(&str, &str)]) -> Part {
        let recorder = self.path().display().to_string();
        let url = self.redis.url();
        let common = [("REDIS_URL", url.as_str()), ("RECORDER_DIR", &recorder)];
        let environment = [&common, environment].concat();
        Part::start(program, &environment, &programs(), &self.path().join(format!("{name}.log")))
    }
}

impl Drop for Facility {
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
