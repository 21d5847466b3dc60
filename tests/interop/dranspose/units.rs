//! Unit files of a site (`tests/interop/units`): our drop-in starts with their command lines, and the
//! configurations that it prints of them start by themselves.

use std::{
    fs::{self, File},
    process::Command,
};

use orchestrator_harness::{
    Instance, Redis, TestEnv, UnitFile,
    dranspose::{programs, python},
    eventually, free_port, http_tcp, wait_for,
};
use serde_json::Value;

use super::BINARY;

/// A unit file, with the addresses of the test in place of its placeholders.
struct Unit {
    name: &'static str,
    text: String,
    /// Redis of the unit.
    redis: Redis,
    port: u16,
    /// Port of an application.
    http: u16,
    env: TestEnv,
}

impl Unit {
    fn new(name: &'static str) -> Self {
        let (redis, port, http) = (Redis::start(), free_port(), free_port());
        let (env, python) = (TestEnv::new(BINARY), python());
        let values = [
            ("@REDIS@", redis.url()),
            ("@PORT@", port.to_string()),
            ("@HTTP@", http.to_string()),
            ("@DIRECTORY@", env.path().display().to_string()),
            ("@PROGRAMS@", programs().display().to_string()),
            ("@PYTHON@", python.display().to_string()),
            ("@BIN@", python.parent().expect("a folder").display().to_string()),
        ];
        let unit = fs::read_to_string(programs().join(format!("units/{name}.service"))).expect("a unit file");
        let text = values.iter().fold(unit, |unit, (placeholder, value)| unit.replace(placeholder, value));
        Self { name, text, redis, port, http, env }
    }

    /// Program that replaces the one of the unit.
    fn program(&self) -> &'static str {
        if self.text.contains("http_ingester") { "dranspose-http-ingester" } else { "dranspose-ingester" }
    }

    /// Adds the unit's variables.
    fn with_environment(&self, mut command: Command) -> Command {
        command.env("REDIS_URL", self.redis.url()).envs(UnitFile::new(&self.text).environment());
        command.env("RUNTIME_DIRECTORY", self.env.path());
        command
    }

    /// `orchestrator as OPTIONS PROGRAM` with the unit's arguments and variables.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = self.with_environment(self.env.service_command());
        command.arg("as").args(options).arg(self.program());
        let unit = UnitFile::new(&self.text);
        let words = unit.command();
        command.args(words.iter().skip_while(|word| !word.ends_with("ingester")).skip(1));
        // Only the interpreter of the unit can import dranspose.
        command.arg("--python").arg(python());
        command
    }

    fn drop_in(&self) -> Instance {
        Instance::spawn(self.command(&[]))
    }

    /// `orchestrator run` with the configuration that the drop-in prints, and the unit's variables.
    fn configured(&self) -> Instance {
        let printed = File::create(self.env.path().join("o.toml")).expect("a file");
        let status = self.command(&["--print-config"]).stdout(printed).status().expect("it runs");
        assert!(status.success(), "{}: {}", self.name, self.env.log());
        let mut command = self.with_environment(self.env.service_command());
        command.args(["run", "--config", "o.toml"]);
        Instance::spawn(command)
    }

    /// Waits until the ingester is registered.
    fn await_registration(&self) {
        let key = format!("dranspose:ingester:{}-ingester:config", self.name);
        let state = wait_for("the ingester's key", || self.redis.text(&key));
        let state: Value = serde_json::from_str(&state).expect("JSON");
        assert_eq!(state["url"], format!("tcp://localhost:{}", self.port), "{}", self.name);
        assert_eq!(state["streams"], serde_json::json!([self.name]));
    }

    /// Waits until the Python process runs.
    fn await_python(&self) {
        eventually(&format!("Python; log:\n{}", self.env.log()), || {
            self.env.link(&format!("ingester/{}-ingester/python_0", self.name)).state == "up"
        });
    }
}

/// Starts the unit in both ways and calls `check` on each.
fn start_both(name: &'static str, check: impl Fn(&Unit)) {
    for start in [Unit::drop_in, Unit::configured] {
        let unit = Unit::new(name);
        let instance = start(&unit);
        unit.await_registration();
        check(&unit);
        assert!(instance.terminate().success(), "{name}: {}", unit.env.log());
    }
}

#[test]
fn a_unit_with_a_shipped_class_starts() {
    start_both("eiger", |_| {});
}

#[test]
fn a_unit_of_sardana_starts() {
    start_both("sardana", |_| {});
}

/// The class is found by the unit's `PYTHONPATH`.
#[test]
fn a_unit_with_a_class_of_the_site_starts() {
    start_both("made", Unit::await_python);
}

#[test]
fn a_unit_with_an_application_of_the_site_starts() {
    start_both("posted", |unit| {
        unit.await_python();
        let address = ([127, 0, 0, 1], unit.http).into();
        assert_eq!(http_tcp(address, "POST", "/text", &[], "x").status, 200);
    });
}
