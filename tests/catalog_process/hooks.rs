//! A hook reports rows that are dead (`on = "catalog.dead"`).

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Webhook, eventually};
use serde_json::json;

#[test]
fn a_row_is_reported_once_it_is_written_as_dead() {
    let server = Ermrest::start(&[]);
    let webhook = Webhook::start("/dead", "204 Done");
    let handler =
        r#"handler = { kind = "command", argv = ["/bin/sh", "-c", "echo no such image >&2; exit 64"] }"#;
    let hook = format!("\n[[hook]]\nname = \"dead\"\non = \"catalog.dead\"\nurl = \"{}\"\n", webhook.url);
    let env = CatalogEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &server)
        .rule(FULL_RULE)
        .rule(handler)
        .rule(&hook);
    let _instance = env.start();
    server.insert_foo(2, "actionable");
    eventually("both rows to be reported", || webhook.posts().len() == 2);
    let mut rows = Vec::new();
    for post in webhook.posts() {
        let data = &post.body["data"];
        assert_eq!((&post.body["on"], &data["rule"]), (&json!("catalog.dead"), &json!("work")), "{post:?}");
        assert_eq!(data["child"], "catalog/lab/rules/work", "{post:?}");
        assert!(data["reason"].as_str().is_some_and(|text| text.contains("no such image")), "{post:?}");
        rows.push(data["row"].as_str().expect("the key").to_owned());
    }
    let mut keys: Vec<_> =
        server.rows("Foo").iter().map(|row| row["RID"].as_str().expect("a key").to_owned()).collect();
    rows.sort();
    keys.sort();
    assert_eq!(rows, keys);
    assert!(server.rows("Foo").iter().all(|row| row["state"] == "dead"));
}
