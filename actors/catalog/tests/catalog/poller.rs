//! The poller inside a process: a rule whose rows are worked on by an actor, and one that survives panics.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use orchestrator_catalog::{
    Actors, CatalogConfig, Rulebook, check, child_spec,
    edge::handlers::HandleRow,
    handling::{Row, Verdict},
};
use orchestrator_harness::Ermrest;
use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildSpec, Factory, Handle, NodeSnapshot, Origin, Strategy, SupervisorSpec, Verb,
    mailbox,
    testing::{TestTree, eventually},
};
use serde_json::{Value, json};

fn config(server: &Ermrest, rules: &Value) -> CatalogConfig {
    let config = json!({
        "name": "lab", "base": server.url(), "amqp": "", "poll_without_notices_secs": 0.1, "grace_ms": 500, "rule": rules,
    });
    serde_json::from_value(config).expect("a configuration")
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

/// An actor of some other subsystem, which works on rows.
struct Other {
    worked: Arc<AtomicUsize>,
}

impl Child for Other {}

impl Handle<HandleRow> for Other {
    fn handle(&mut self, row: HandleRow, _: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.worked.fetch_add(1, Relaxed);
        row.answer(Verdict::Done(Row::new()));
        Answer::done()
    }
}

/// The tree of one catalog.
fn tree(config: &CatalogConfig, actors: &Actors) -> SupervisorSpec {
    let catalogs = child_spec(std::slice::from_ref(config), actors, &Rulebook::default());
    SupervisorSpec::new(Strategy::OneForOne).child(catalogs.expect("a catalog"))
}

#[test]
fn an_actor_works() {
    let server = Ermrest::start(&[]);
    server.insert_foo(20, "actionable");
    let (mailbox, slot) = mailbox::<Other>(64);
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
    let other = Factory::actor(slot, move |_: &_| Ok(Other { worked: count.clone() }));
    let spec = tree(&config, &actors).child(ChildSpec::worker("other", other));
    TestTree::run(spec, async |_tree| {
        eventually("all rows are complete", || complete(&server) == 20).await;
        assert_eq!(worked.load(Relaxed), 20);
    });
}

#[test]
fn a_poller_that_panics_comes_back_with_its_rules() {
    let server = Ermrest::start(&[]);
    let rules = json!([{
        "name": "work", "table": "Foo", "filter": "state=actionable",
        "claim": { "set": { "state": "claimed", "claimed_by": "$token", "lease_until": "$now+2s" } },
        "done": { "state": "complete" },
    }]);
    let config = config(&server, &rules);
    TestTree::run(tree(&config, &Actors::new()), async |tree| {
        for (count, path) in ["poller", "http"].into_iter().enumerate() {
            let path = format!("test/catalog/lab/{path}");
            tree.command(&path, Verb::Panic, &Origin::default()).await.expect("it panics");
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
