//! `orchestrator why` for the catalog subsystem.

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, eventually};
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
