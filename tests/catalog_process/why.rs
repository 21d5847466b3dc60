//! `orchestrator why` for the catalog subsystem.

use std::fs;

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, Reply, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

#[test]
fn a_parked_rule_is_named_with_the_words_of_the_server() {
    let server = Ermrest::start(&[]);
    let missing = FULL_RULE.replace("\"work\"", "\"missing\"").replace("\"Foo\"", "\"Nowhere\"");
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule(&missing);
    let _instance = site.start();
    server.insert_foo(1, "actionable");
    let cause = site.base().first_cause("catalog", "the server refuses the rule");
    assert_eq!(cause.path, "catalog/lab/rules/missing");
    assert!(cause.text.contains("409") && cause.text.contains("Nowhere"), "{cause:?}");
    assert!(cause.evidence[0].starts_with("the rule asks again "), "{cause:?}");
    let commands = "orchestrator catalog check missing; then orchestrator catalog run-once missing";
    assert_eq!(cause.help, commands);
    // The other rule works.
    let works = || site.base().why("catalog/lab/rules/work");
    eventually("its last row", || works().contains("nothing holds up work: last row "));
}

/// As in `config/pipeline.toml`: rows are jobs of the queue, which has no fetcher file.
#[test]
fn rows_that_wait_for_a_worker_name_its_socket() {
    const RULE: &str = r#"handler = { kind = "queue", attr_path = "img/$row.id", payload = "$row.state" }"#;
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule(RULE);
    let mut command = site.base().command();
    command.arg("--config").arg(site.write());
    let instance = Instance::spawn(command);
    instance.await_service(site.base());
    let works = |branch: &str| site.base().why(branch).contains("nothing holds up work");
    eventually("both branches to be idle", || works("catalog") && works("queue"));
    server.insert_foo(2, "actionable");
    let text = "2 jobs wait, no worker has asked since the start (0 in flight, limits leave 2 free)";
    let cause = site.base().first_cause("queue", text);
    assert_eq!(cause.path, "queue/queue_store");
    let passed_on = site.base().first_cause("catalog", &format!("waits for queue/queue_store: {text}"));
    assert_eq!(passed_on.path, "catalog/lab/rules/work");
    let help = format!("start workers at {}", site.base().socket().display());
    assert_eq!([cause.help, passed_on.help], [help.clone(), help]);
    // What holds up only the queue's own files does not concern the rows.
    assert!(matches!(site.base().worker().ready(), Reply::Job { .. }));
    fs::rename(site.base().input_dir(), site.base().path().join("away")).expect("move the directory");
    assert_eq!(site.base().first_cause("queue", "input directory is gone").path, "queue/inotify");
    eventually("no cause of the catalog", || site.base().causes("catalog").is_empty());
    assert_eq!(site.base().first_cause("queue", "input directory is gone").path, "queue/inotify");
}

/// Reads are answered, so that the connection itself is up.
#[test]
fn a_server_that_refuses_writes_is_a_link_that_is_down() {
    let server = Ermrest::start(&["--faults"]);
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule("[links]\nretry_max_ms = 100\n");
    let _instance = site.start();
    let link = || site.base().link("catalog/lab/http");
    eventually("the connection", || link().state == "up");
    server.set_faults(
        &json!({ "storm": { "code": 403, "count": 1_000_000, "method": "PUT", "body": "not yours" } }),
    );
    server.insert_foo(1, "actionable");
    eventually("the refusal", || link().state == "down" && link().reason.contains("403"));
    assert!(link().reason.starts_with("rule work: "), "{:?}", link().reason);
    server.set_faults(&json!({ "calm": true }));
    eventually("an accepted write", || link().state == "up");
}
