//! The page's section "Moving from ..": the agent on the library deriva, the rule, and the agent again.

use std::{fs, process::Command};

use orchestrator_harness::{Ermrest, Instance, Rabbit, TestEnv, UnitFile, deriva_python, eventually};
use serde_json::{Value, json};

use super::PAGE;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const ROWS: usize = 12;

/// Adds rows, and waits until `agent` has completed them.
fn works(server: &Ermrest, round: usize, agent: Command) -> Instance {
    let ids = (0..ROWS).map(|row| round * ROWS + row + 1);
    server.insert("Foo", &ids.map(|id| json!({"id": id, "state": "actionable"})).collect::<Value>(), "");
    let agent = Instance::spawn(agent);
    eventually("all rows to be complete", || server.count("Foo", "complete") == ((round + 1) * ROWS) as u64);
    agent
}

#[test]
fn a_site_moves_and_goes_back() {
    let server = Ermrest::start(&["--amqp", &Rabbit::shared().url()]);
    let site = TestEnv::new(BINARY);
    let (original, rule) = (site.path().join("look_for_work.py"), site.path().join("agent.toml"));
    let [python, toml, ..] = super::page_blocks("\n## Moving from ")[..] else { panic!("two blocks") };
    // Both use the broker of the catalog's host if they are given none.
    let (broker, port) = (Rabbit::shared(), server.port());
    let catalog = format!("\"localhost:{port}\", \"1\", amqp_server=\"{}\"", broker.host());
    let base = format!("base = \"{}\"\namqp = \"{}\"", server.url(), broker.url());
    for (file, text, from, to) in [
        (&original, python, "\"localhost\", \"1\"", catalog),
        (&rule, toml, "base = \"http://localhost/ermrest/catalog/1\"", base),
    ] {
        assert!(text.contains(from), "{text}");
        fs::write(file, text.replace(from, &to)).expect("write");
    }
    let unit_values = [("/opt/agent/look_for_work.py", original.to_str().expect("UTF-8"))];
    let [before, _] = UnitFile::before_and_after(PAGE, &unit_values);
    let unit_values = [("/etc/orchestrator/agent.toml", rule.to_str().expect("UTF-8"))];
    let [_, after] = UnitFile::before_and_after(PAGE, &unit_values);
    let agent = || {
        let mut command = Command::new(deriva_python());
        command.env("PYTHONDONTWRITEBYTECODE", "1").args(&before.command()[1..]);
        command
    };

    works(&server, 0, agent()).kill_nine();
    let mut command = site.command_of_unit(&after);
    command.args(["--set", "admin.listen=", "--set", "telemetry.filter=debug"]);
    let instance = works(&server, 1, command);
    eventually("the last settlement to be logged", || site.log().matches("a row is settled").count() == ROWS);
    assert!(instance.terminate().success());
    let log = site.log();
    assert_eq!(log.matches("a row is claimed").count(), ROWS, "{log}");
    assert!(log.lines().any(|line| line.contains("a row is claimed") && line.contains("foo")), "{log}");
    works(&server, 2, agent()).kill_nine();

    let requests = server.requests();
    let by_us = |request: &&Value| {
        request["headers"]["user-agent"].as_str().is_some_and(|agent| agent.starts_with("orchestrator"))
    };
    let ours: Vec<_> = requests.iter().filter(by_us).collect();
    // A table with only `id` and `state`: no other column was written.
    let paths = |method: &str| -> Vec<&str> {
        let sent = ours.iter().filter(|request| request["method"] == method);
        sent.map(|request| request["path"].as_str().expect("a path")).collect()
    };
    for path in paths("PUT") {
        assert!(
            path.ends_with("/attributegroup/Foo/id;state")
                || path.ends_with("/attributegroup/Foo/id,claimed_state:=state;state"),
            "{path}"
        );
    }
    assert!(paths("GET").contains(&"/ermrest/catalog/1/entity/Foo/state=actionable?limit=5"));
    assert!(requests.len() > ours.len(), "the original sent the others");
}
