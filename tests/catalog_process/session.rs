//! The block `session` of `~/.deriva/config.json` takes effect.

use std::fs;

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

#[test]
fn time_outs_and_statuses_come_from_the_file_unless_the_configuration_has_them() {
    let server = Ermrest::start(&[]);
    let home = tempfile::tempdir().expect("a directory");
    let folder = home.path().join(".deriva");
    fs::create_dir(&folder).expect("create");
    let session =
        json!({ "timeout": [5, 0.2], "retry_connect": 0, "retry_read": 0, "retry_status_forcelist": [404] });
    fs::write(folder.join("config.json"), json!({ "session": session }).to_string()).expect("write");
    let home = home.path().display().to_string();
    server.set_faults(&json!({ "delay_ms": 1_000 }));
    let waits_for = |site: &CatalogEnv, reason: &str| {
        eventually(reason, || {
            let status = site.rule_status("work");
            status["phase"] == "waiting" && status["reason"].as_str().is_some_and(|is| is.contains(reason))
        });
    };
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE);
    let instance = site.start_with(&[("HOME", &home)]);
    waits_for(&site, "no response within 200ms");
    server.set_faults(&json!({ "delay_ms": 0 }));
    server.insert_foo(1, "actionable");
    eventually("the row to be complete", || server.rows("Foo")[0]["state"] == "complete");
    assert!(instance.terminate().success());
    server.set_faults(&json!({ "delay_ms": 1_000 }));
    let site = CatalogEnv::new(BINARY, &server).key("read_timeout_ms = 300").rule(FULL_RULE);
    let instance = site.start_with(&[("HOME", &home)]);
    waits_for(&site, "no response within 300ms");
    assert!(instance.terminate().success());
    // Without the list, the rule would be parked.
    server.set_faults(&json!({ "delay_ms": 0 }));
    let url = server.url().replace("/catalog/1", "/catalog/77");
    let site = CatalogEnv::at(BINARY, &url).rule(FULL_RULE);
    let instance = site.start_with(&[("HOME", &home)]);
    waits_for(&site, "with 404");
    assert!(instance.terminate().success());
}
