//! The rule on the catalog's page works as described.

use std::fs;

use orchestrator_harness::{Ermrest, Instance, TestEnv, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const PAGE: &str = include_str!("../../actors/catalog/README.md");
const HEADING: &str = "## In place of PollingErmrestCatalog";

#[test]
fn the_rule_on_the_page_replaces_the_agent_of_the_original() {
    let (_, section) = PAGE.split_once(HEADING).expect("the section");
    let (_, block) = section.split_once("```toml\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let server = Ermrest::start(&[]);
    assert!(block.contains("http://localhost/ermrest/catalog/1"));
    let site = TestEnv::new(BINARY);
    let file = site.path().join("agent.toml");
    fs::write(&file, block.replace("http://localhost/ermrest/catalog/1", &server.url())).expect("write");
    server.insert_foo(12, "actionable");
    let mut command = site.bare_command();
    command
        .args([
            "run",
            "--only",
            "catalog",
            "--set",
            "admin.listen=",
            "--set",
            "telemetry.filter=debug",
            "--config",
        ])
        .arg(&file);
    let _instance = Instance::spawn(command);
    eventually("all rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    // A table with only `id` and `state`: no other column was written.
    for request in server.requests().iter().filter(|request| request["method"] == "PUT") {
        let path = request["path"].as_str().expect("a path");
        assert!(
            path.ends_with("/attributegroup/Foo/id;state")
                || path.ends_with("/attributegroup/Foo/id,claimed_state:=state;state"),
            "{path}"
        );
    }
    assert!(server.requests().iter().any(|request| {
        request["path"] == "/ermrest/catalog/1/entity/Foo/state=actionable?limit=5"
            && request["method"] == "GET"
    }));
    eventually("the last settlement to be logged", || site.log().matches("a row is settled").count() == 12);
    let log = site.log();
    assert_eq!(log.matches("a row is claimed").count(), 12, "{log}");
    assert!(log.lines().any(|line| line.contains("a row is claimed") && line.contains("foo")), "{log}");
}
