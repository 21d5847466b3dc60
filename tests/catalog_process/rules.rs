//! Rules as children: a panic affects only its rule, each rule is controlled by its path, and a
//! reload adds, changes and removes rules.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, eventually, http};
use rustix::process::Signal;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Enables the injection of panics.
const CHAOS: &[(&str, &str)] = &[("ORCHESTRATOR__ADMIN__CHAOS", "true")];
/// Duration of the lease in [`FULL_RULE`].
const LEASE: Duration = Duration::from_secs(5);

fn rule(name: &str, from: &str) -> String {
    let filter = format!("filter = \"state={from}\"");
    FULL_RULE.replace("\"work\"", &format!("{name:?}")).replace("filter = \"state=actionable\"", &filter)
}

/// Runs until the file `go` exists, whose path is the second value.
fn blocking_handler(site: &CatalogEnv) -> (String, PathBuf) {
    let go = site.base().path().join("go");
    let script = format!("cat >/dev/null; until [ -e {} ]; do sleep 0.05; done", go.display());
    let handler = format!("handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", {script:?}] }}\n");
    (handler, go)
}

fn insert(server: &Ermrest, id: u32, state: &str) {
    server.insert("Foo", &json!([{ "id": id, "state": state }]), "");
}

fn row(server: &Ermrest, id: u32) -> serde_json::Map<String, Value> {
    server.rows("Foo").into_iter().find(|row| row["id"] == id).expect("a row")
}

fn complete(server: &Ermrest, id: u32) {
    eventually(&format!("row {id} to be complete"), || row(server, id)["state"] == "complete");
}

/// State, incarnation and restarts.
fn child(site: &CatalogEnv, rule: &str) -> (String, u64, u64) {
    let node = site.base().node(&format!("catalog/lab/rules/{rule}"));
    let number = |key: &str| node[key].as_u64().expect("a number");
    (node["state"].as_str().expect("a state").to_owned(), number("incarnation"), number("restarts"))
}

fn rules(site: &CatalogEnv) -> Vec<String> {
    let node = site.base().node("catalog/lab/rules");
    let children = node["children"].as_array().expect("children").iter();
    children.map(|child| child["id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn a_panic_in_one_rule_leaves_the_others_claiming() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let (handler, go) = blocking_handler(&site);
    let site = site.rule(&rule("work", "actionable")).rule(&rule("held", "hold")).rule(&handler);
    let mut instance = site.start_with(CHAOS);
    // A rule with a running handler panics repeatedly.
    insert(&server, 1, "hold");
    eventually("the row to be worked on", || site.rule_status("held")["working"] == 1);
    let mut longest = Duration::ZERO;
    for id in 100..120 {
        if id % 5 == 0 {
            site.base().inject_panic("catalog/lab/rules/held");
        }
        let begun = Instant::now();
        insert(&server, id, "actionable");
        complete(&server, id);
        longest = longest.max(begun.elapsed());
    }
    assert!(longest < LEASE, "no row had to wait for anybody: {longest:?}");
    assert_eq!(child(&site, "work"), ("running".to_owned(), 1, 0));
    assert!((100..120).all(|id| row(&server, id)["attempts"] == 1));
    // The rule takes its own row over when the lease has ended.
    eventually("it to be back", || child(&site, "held").0 == "running");
    assert_eq!(child(&site, "held").1, 5, "four panics");
    fs::write(&go, "").expect("write");
    complete(&server, 1);
    assert!(row(&server, 1)["attempts"].as_u64() >= Some(2), "claimed by the fallen, and taken over");

    // A running handler outlives panics of another rule and of the poller.
    fs::remove_file(&go).expect("it is there");
    insert(&server, 2, "hold");
    eventually("the row to be worked on", || site.rule_status("held")["working"] == 1);
    for path in ["catalog/lab/rules/work", "catalog/lab/catalog_poller"] {
        site.base().inject_panic(path);
        eventually("it to come back", || site.base().node(path)["incarnation"] == 2);
    }
    fs::write(&go, "").expect("write");
    complete(&server, 2);
    assert_eq!(row(&server, 2)["attempts"], 1);
    insert(&server, 3, "actionable");
    complete(&server, 3);
    assert!(instance.ended().is_none());
    assert_eq!(site.base().node("catalog/lab/rules")["restarts"], 0);
}

#[test]
fn a_rule_is_controlled_by_its_path() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let (handler, go) = blocking_handler(&site);
    let site = site
        .key("grace_ms = 20000")
        .rule(&rule("held", "hold"))
        .rule(&handler)
        .rule(&rule("work", "actionable"));
    let instance = site.start_with(CHAOS);
    let control = |verb: &str, rule: &str| {
        let path = format!("catalog/lab/rules/{rule}");
        let (code, out, error) = site.base().cli(&[verb, &path]);
        assert_eq!(code, 0, "{verb} {path}: {out}{error}");
    };
    // A paused rule claims nothing and renews the leases of its rows.
    insert(&server, 1, "hold");
    eventually("the row to be worked on", || site.rule_status("held")["working"] == 1);
    control("pause", "held");
    assert_eq!(site.status()["paused"], json!(["held"]));
    insert(&server, 2, "hold");
    let begun = Instant::now();
    let mut id = 100;
    while begun.elapsed() < LEASE + Duration::from_secs(2) {
        insert(&server, id, "actionable");
        complete(&server, id);
        id += 1;
    }
    assert_eq!(
        (row(&server, 1)["attempts"].clone(), row(&server, 2)["state"].clone()),
        (json!(1), json!("hold"))
    );
    let (_, tree, _) = site.base().cli(&["tree", "catalog/lab/rules"]);
    assert!(tree.contains("held") && tree.contains("paused"), "{tree}");
    fs::write(&go, "").expect("write");
    complete(&server, 1);
    assert_eq!(row(&server, 1)["attempts"], 1, "its lease was renewed all the time");
    // The pause outlives a panic. The catalog's console and the child's path are equivalent.
    site.base().inject_panic("catalog/lab/rules/held");
    eventually("it to come back", || child(&site, "held") == ("paused".to_owned(), 2, 1));
    let (code, _, error) = site.base().cli(&["catalog", "resume", "held"]);
    assert_eq!((code, child(&site, "held").0.as_str()), (0, "running"), "{error}");
    complete(&server, 2);

    // A restart finishes running handlers within the grace period.
    fs::remove_file(&go).expect("it is there");
    insert(&server, 3, "hold");
    eventually("the row to be worked on", || site.rule_status("held")["working"] == 1);
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| site.base().cli(&["restart", "catalog/lab/rules/held"]));
        eventually("it to stop", || child(&site, "held").0 == "stopping");
        insert(&server, id, "actionable");
        complete(&server, id);
        fs::write(&go, "").expect("write");
        assert_eq!(restart.join().expect("it ran").0, 0);
    });
    assert_eq!(child(&site, "held"), ("running".to_owned(), 3, 1), "one was a command");
    complete(&server, 3);
    assert_eq!(row(&server, 3)["attempts"], 1);

    control("stop", "held");
    let status = site.rule_status("held");
    assert_eq!((&status["phase"], &status["reason"]), (&json!("stopped"), &json!("shutdown")));
    insert(&server, 4, "hold");
    let (code, _, refused) = site.base().cli(&["catalog", "run-once", "held"]);
    assert!(code != 0 && refused.contains("start it first"), "{refused}");
    assert_eq!(row(&server, 4)["state"], "hold");
    control("start", "held");
    complete(&server, 4);
    assert_eq!(child(&site, "work"), ("running".to_owned(), 1, 0));
    assert!(instance.terminate().success());
}

#[test]
fn a_reload_adds_changes_and_removes_rules_as_children() {
    let server = Ermrest::start(&[]);
    let mut site = CatalogEnv::new(BINARY, &server);
    let (handler, go) = blocking_handler(&site);
    site.add_rule(&rule("same", "actionable"));
    site.add_rule(&format!("{}{handler}", rule("other", "hold")));
    site.add_rule(&format!("{}{handler}", rule("gone", "leave")));
    let instance = site.start();
    assert_eq!(rules(&site), ["same", "other", "gone"]);
    insert(&server, 1, "hold");
    insert(&server, 2, "leave");
    eventually("rows to be worked on", || {
        ["other", "gone"].iter().all(|rule| site.rule_status(rule)["working"] == 1)
    });
    let started = site.base().node("catalog/lab/rules/same")["started_ms"].clone();

    site.clear_rules();
    site.add_rule(&rule("same", "actionable"));
    site.add_rule(&rule("other", "other"));
    site.add_rule(&rule("fresh", "fresh"));
    site.write();
    instance.signal(Signal::HUP);
    eventually("the new rule", || rules(&site).contains(&"fresh".to_owned()));
    // New rule, new version and old version work at the same time.
    for (id, state) in [(10, "actionable"), (11, "other"), (12, "fresh")] {
        insert(&server, id, state);
        complete(&server, id);
    }
    insert(&server, 13, "hold");
    insert(&server, 14, "leave");
    assert_eq!(rules(&site), ["same", "other", "gone", "fresh"], "it has a row in hand");
    let names: Vec<_> = site.status()["rules"].as_object().expect("rules").keys().cloned().collect();
    assert_eq!(names, ["fresh", "other", "same"]);
    fs::write(&go, "").expect("write");
    for id in [1, 2] {
        complete(&server, id);
        assert_eq!(row(&server, id)["attempts"], 1);
    }
    eventually("the rule to leave the tree", || rules(&site) == ["same", "other", "fresh"]);
    let metrics = http(&site.base().admin_socket(), "GET", "/metrics", &[], "").body;
    assert!(metrics.contains("rules/fresh") && !metrics.contains("rules/gone"), "{metrics}");
    assert_eq!(site.base().node("catalog/lab/rules/same")["started_ms"], started, "it was not disturbed");
    assert_eq!(child(&site, "other"), ("running".to_owned(), 1, 0));
    assert_eq!(
        (row(&server, 13)["state"].clone(), row(&server, 14)["state"].clone()),
        (json!("hold"), json!("leave"))
    );

    // The removed rule returns as a new child, and a stopped rule is removed.
    site.base().actor_command("catalog/lab/rules/fresh", "stop");
    site.clear_rules();
    site.add_rule(&rule("same", "actionable"));
    site.add_rule(&rule("gone", "leave"));
    site.write();
    instance.signal(Signal::HUP);
    complete(&server, 14);
    eventually("those without a rule to leave", || rules(&site) == ["same", "gone"]);
    assert_eq!(child(&site, "gone"), ("running".to_owned(), 1, 0));
    assert!(instance.terminate().success());
}
