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

#[test]
fn the_list_of_unverified_hosts_is_read_at_the_start() {
    let server = Ermrest::start_tls(&[]);
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join(".deriva")).expect("create");
    let list_is = |hosts: serde_json::Value| {
        let session = json!({ "session": { "bypass_cert_verify_host_list": hosts } });
        fs::write(home.path().join(".deriva/config.json"), session.to_string()).expect("write");
    };
    let home = home.path().display().to_string();
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE);
    list_is(json!(["other"]));
    let instance = site.start_with(&[("HOME", &home)]);
    eventually("the certificate to be refused", || {
        site.rule_status("work")["reason"].as_str().is_some_and(|reason| reason.contains("TLS: "))
    });
    assert!(instance.terminate().success());
    list_is(json!(["other", "localhost"]));
    let instance = site.start_with(&[("HOME", &home)]);
    eventually("a poll", || site.rule_status("work")["polls"].as_u64() >= Some(1));
    assert!(instance.terminate().success());
    // A list in the configuration replaces that of the file.
    let site = CatalogEnv::new(BINARY, &server).key("unverified_hosts = []").rule(FULL_RULE);
    let instance = site.start_with(&[("HOME", &home)]);
    eventually("the certificate to be refused again", || {
        site.rule_status("work")["reason"].as_str().is_some_and(|reason| reason.contains("TLS: "))
    });
    assert!(instance.terminate().success());
}
