//! The poller in a supervision tree: rules, and panics.

use orchestrator_exchange::{Exchange, JobEnd, JobFinished, JobQueue};
use orchestrator_harness::Ermrest;
use orchestrator_observe::NodeSnapshot;
use orchestrator_supervise::{
    Command, Origin, State, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};
use serde_json::{Value, json};

use super::handlers_queue::queue;
use crate::{CatalogConfig, RuleReloader, check, child_spec};

fn config(server: &Ermrest, rules: &Value) -> CatalogConfig {
    let config = json!({
        "name": "lab", "base": server.url(), "amqp": "", "poll_without_notices_secs": 0.1, "grace_ms": 500, "rule": rules,
    });
    serde_json::from_value(config).expect("a configuration")
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

/// Specification of a tree with one catalog.
fn tree(config: &CatalogConfig, queue: Option<&JobQueue>) -> SupervisorSpec {
    let exchange = Exchange { jobs: queue.cloned(), ..Exchange::default() };
    let catalogs = child_spec(std::slice::from_ref(config), &exchange, &mut RuleReloader::default());
    SupervisorSpec::new(Strategy::OneForOne).child(catalogs.expect("a catalog"))
}

#[test]
fn a_poller_that_panics_restarts_with_its_rules() {
    let server = Ermrest::start(&[]);
    let rules = json!([{
        "name": "work", "table": "Foo", "filter": "state=actionable",
        "claim": { "set": { "state": "claimed", "claimed_by": "$token", "lease_until": "$now+2s" } },
        "done": { "state": "complete" },
    }]);
    let config = config(&server, &rules);
    TestTree::run(tree(&config, None), async |tree| {
        for (count, path) in ["catalog_poller", "http"].into_iter().enumerate() {
            let path = format!("test/catalog/lab/{path}");
            tree.command(&path, Command::Panic, &Origin::default()).await.expect("it panics");
            eventually("it to come back", || {
                let snapshot = tree.snapshot();
                let mut restarts = 0;
                snapshot.root.walk(&mut |node: &NodeSnapshot| {
                    restarts += if node.path == path { node.restarts } else { 0 }
                });
                restarts == 1
            })
            .await;
            let id = count + 1;
            server.insert("Foo", &json!([{ "id": id, "state": "actionable" }]), "");
            eventually("the row is complete", || complete(&server) == id).await;
        }
    });
}

#[test]
fn rules_that_would_share_a_path_are_refused() {
    let rule = |name: &str| {
        json!({
            "name": name, "table": "Foo", "filter": "state=actionable",
            "claim": { "set": { "state": "claimed" } }, "done": { "state": "complete" },
        })
    };
    let check = |rules: Vec<Value>| {
        let config = json!({ "name": "lab", "base": "http://localhost/ermrest/catalog/1", "rule": rules });
        check(&[serde_json::from_value(config).expect("a configuration")])
    };
    assert_eq!(check(vec![rule("a b"), rule("a-b")]), Vec::<String>::new());
    let wrong = check(vec![rule("a b"), rule("a_b")]);
    assert_eq!(wrong, ["catalog.lab.rule.a_b.name: it has the same path in the tree as a b"]);
    let many = check((0..1_025).map(|n| rule(&n.to_string())).collect());
    assert_eq!(many, ["catalog.lab.rule: there are 1025 rules, and at most 1024 are allowed"]);
}

#[test]
fn claimed_rows_outlive_panics_of_other_children() {
    let server = Ermrest::start(&[]);
    let (queue, jobs, taken) = queue(64);
    let rule = |name: &str, from: &str| {
        json!({
            "name": name, "table": "Foo", "filter": format!("state={from}"), "lease_secs": 60,
            "handler": { "kind": "queue", "attr_path": "$row.id" },
            "claim": { "set": { "state": "claimed", "claimed_by": "$token", "lease_until": "$now+60s" } },
            "done": { "state": "complete" },
        })
    };
    let config = config(&server, &json!([rule("one", "first"), rule("two", "second")]));
    let spec = tree(&config, Some(&jobs)).child(queue);
    TestTree::run(spec, async |tree| {
        for (id, state) in [(1, "first"), (2, "second")] {
            server.insert("Foo", &json!([{ "id": id, "state": state }]), "");
        }
        eventually("both to be held", || taken.lock().offers.len() == 2).await;
        for child in ["catalog_poller", "rules/one"] {
            let path = format!("test/catalog/lab/{child}");
            tree.command(&path, Command::Panic, &Origin::default()).await.expect("it panics");
            let back =
                || tree.node(&path).is_some_and(|node| node.incarnation == 2 && node.state == State::Running);
            eventually("it to come back", back).await;
        }
        let end = JobEnd::Finished(JobFinished { exit_code: 0, seconds: 1 });
        taken.lock().offers.drain(..).for_each(|(_, reply)| drop(reply.send(end.clone())));
        eventually("the row of the other rule to be complete", || complete(&server) == 1).await;
        let rows = server.rows("Foo");
        let state = |id: u32| rows.iter().find(|row| row["id"] == id).map(|row| row["state"].clone());
        assert_eq!((state(1), state(2)), (Some(json!("claimed")), Some(json!("complete"))));
    });
}
