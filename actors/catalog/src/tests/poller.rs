//! The poller in a supervision tree: a rule with an actor as handler, and panics.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use orchestrator_harness::Ermrest;
use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildSpec, Command, Factory, Handle, NodeSnapshot, Origin, Strategy,
    SupervisorSpec, mailbox,
    testing::{TestTree, eventually},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    Actors, CatalogConfig, RuleReloader, check, child_spec,
    edge::handlers::HandleRow,
    handler::{Outcome, Row},
};

fn config(server: &Ermrest, rules: &Value) -> CatalogConfig {
    let config = json!({
        "name": "lab", "base": server.url(), "amqp": "", "poll_without_notices_secs": 0.1, "grace_ms": 500, "rule": rules,
    });
    serde_json::from_value(config).expect("a configuration")
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

/// Actor of another subsystem that processes rows.
struct WorkingActor {
    worked: Arc<AtomicUsize>,
}

impl Child for WorkingActor {}

impl Handle<HandleRow> for WorkingActor {
    fn handle(&mut self, row: HandleRow, _: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.worked.fetch_add(1, Relaxed);
        row.answer(Outcome::Done(Row::new()));
        Answer::done()
    }
}

/// Rows without an outcome.
type KeptRows = Arc<Mutex<Vec<HandleRow>>>;

/// Actor that keeps its rows.
struct KeepingActor(KeptRows);

impl Child for KeepingActor {}

impl Handle<HandleRow> for KeepingActor {
    fn handle(&mut self, row: HandleRow, _: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.0.lock().push(row);
        Answer::done()
    }
}

/// Specification of a tree with one catalog.
fn tree(config: &CatalogConfig, actors: &Actors) -> SupervisorSpec {
    let catalogs = child_spec(std::slice::from_ref(config), actors, &mut RuleReloader::default());
    SupervisorSpec::new(Strategy::OneForOne).child(catalogs.expect("a catalog"))
}

#[test]
fn an_actor_processes_the_rows_of_a_rule() {
    let server = Ermrest::start(&[]);
    server.insert_foo(20, "actionable");
    let (mailbox, slot) = mailbox::<WorkingActor>(64);
    let worked = Arc::<AtomicUsize>::default();
    let actors = Actors::from([("other".to_owned(), mailbox.recipient())]);
    let rules = json!([{
        "name": "work", "table": "Foo", "filter": "state=actionable", "concurrency": 4,
        "handler": { "kind": "actor", "actor": "other" },
        "claim": { "set": { "state": "claimed", "claimed_by": "$token" } }, "done": { "state": "complete" },
    }]);
    let config = config(&server, &rules);
    assert_eq!(check(std::slice::from_ref(&config), &actors), Vec::<String>::new());
    assert_eq!(check(std::slice::from_ref(&config), &Actors::new()).len(), 1, "without it, it is missed");
    let count = worked.clone();
    let other = Factory::actor(slot, move |_: &_| Ok(WorkingActor { worked: count.clone() }));
    let spec = tree(&config, &actors).child(ChildSpec::worker("other", other));
    TestTree::run(spec, async |_tree| {
        eventually("all rows are complete", || complete(&server) == 20).await;
        assert_eq!(worked.load(Relaxed), 20);
    });
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
    TestTree::run(tree(&config, &Actors::new()), async |tree| {
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
        check(&[serde_json::from_value(config).expect("a configuration")], &Actors::new())
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
    let (mailbox, slot) = mailbox::<KeepingActor>(64);
    let actors = Actors::from([("other".to_owned(), mailbox.recipient())]);
    let rule = |name: &str, from: &str| {
        json!({
            "name": name, "table": "Foo", "filter": format!("state={from}"), "lease_secs": 60,
            "handler": { "kind": "actor", "actor": "other" },
            "claim": { "set": { "state": "claimed", "claimed_by": "$token", "lease_until": "$now+60s" } },
            "done": { "state": "complete" },
        })
    };
    let config = config(&server, &json!([rule("one", "first"), rule("two", "second")]));
    let held = KeptRows::default();
    let rows = held.clone();
    let other = Factory::actor(slot, move |_: &_| Ok(KeepingActor(rows.clone())));
    let spec = tree(&config, &actors).child(ChildSpec::worker("other", other));
    TestTree::run(spec, async |tree| {
        for (id, state) in [(1, "first"), (2, "second")] {
            server.insert("Foo", &json!([{ "id": id, "state": state }]), "");
        }
        eventually("both to be held", || held.lock().len() == 2).await;
        for child in ["catalog_poller", "rules/one"] {
            let path = format!("test/catalog/lab/{child}");
            tree.command(&path, Command::Panic, &Origin::default()).await.expect("it panics");
            let back =
                || tree.node(&path).is_some_and(|node| node.incarnation == 2 && node.state == "running");
            eventually("it to come back", back).await;
        }
        held.lock().drain(..).for_each(|row| row.answer(Outcome::Done(Row::new())));
        eventually("the row of the other rule to be complete", || complete(&server) == 1).await;
        let rows = server.rows("Foo");
        let state = |id: u32| rows.iter().find(|row| row["id"] == id).map(|row| row["state"].clone());
        assert_eq!((state(1), state(2)), (Some(json!("claimed")), Some(json!("complete"))));
    });
}
