//! The poller inside a process: rules whose rows are planned and worked on by actors, and both idioms of the original for other actors.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use orchestrator_catalog::{
    CatalogConfig, Names, Rulebook, check, child_spec,
    edge::handlers::HandleRow,
    handling::{PlanRow, Row, Verdict},
    messages::{BlockingPoll, ChangeError, Changed, Found, LookForWork, Plan, StateChangeOnce},
};
use orchestrator_harness::Ermrest;
use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildSpec, Factory, Handle, Mailbox, NodeSnapshot, Origin, Recipient, Slot,
    Strategy, SupervisorSpec, Verb, mailbox,
    testing::{TestTree, eventually},
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const QUERY: &str = "/entity/Foo/state=actionable?limit=5";
const UPDATE: &str = "/attributegroup/Foo/id;state";

fn config(server: &Ermrest, rules: &Value) -> CatalogConfig {
    let config = json!({
        "name": "lab", "base": server.url(), "amqp": "", "poll_without_notices_secs": 0.1, "grace_ms": 500, "rule": rules,
    });
    serde_json::from_value(config).expect("a configuration")
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

fn update(row: &Row, state: &str) -> Row {
    json!({ "id": row["id"], "state": state }).as_object().cloned().expect("a row")
}

/// An actor of some other subsystem: plans, works on rows, and looks for work.
struct Other {
    worked: Arc<AtomicUsize>,
    changes: Option<Recipient<StateChangeOnce>>,
}

impl Child for Other {}

impl Handle<PlanRow> for Other {
    fn handle(&mut self, question: PlanRow, _: &mut ChildCx<'_, Self>) -> Answer<Self, Option<Row>> {
        // Odd ones are nobody's.
        let even = question.row["id"].as_u64().is_some_and(|id| id % 2 == 0);
        Answer::now(even.then(|| json!({ "state": "claimed" }).as_object().cloned().expect("a row")))
    }
}

impl Handle<HandleRow> for Other {
    fn handle(&mut self, row: HandleRow, _: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        self.worked.fetch_add(1, Relaxed);
        row.answer(Verdict::Done(Row::new()));
        Answer::done()
    }
}

impl Handle<LookForWork> for Other {
    fn handle(&mut self, look: LookForWork, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        let Some(changes) = self.changes.clone() else { return Answer::done() };
        let worked = self.worked.clone();
        let looking = async move {
            match once(&changes, QUERY, "complete", None).await {
                Ok(changed) if changed.plan.is_empty() => Found::Nothing,
                Ok(changed) => {
                    worked.fetch_add(changed.plan.len(), Relaxed);
                    Found::Work
                }
                Err(ChangeError::Concurrent) => Found::Concurrent,
                Err(error) => panic!("{error}"),
            }
        };
        cx.spawn(looking, |_, found, _| {
            // The poller may have ended.
            let _ = look.answer.send(found);
        });
        Answer::done()
    }
}

/// One conditional state change, to `state`.
async fn once(
    changes: &Recipient<StateChangeOnce>,
    query: &str,
    state: &'static str,
    idle_etag: Option<String>,
) -> Result<Changed, ChangeError> {
    let (answer, changed) = oneshot::channel();
    let plan = Plan::With(Box::new(move |row| Some(update(row, state))));
    let message =
        StateChangeOnce { query: query.to_owned(), update: UPDATE.to_owned(), plan, idle_etag, answer };
    changes.tell(message).expect("it has room");
    changed.await.expect("an answer")
}

/// The tree of one catalog, and another actor beside it.
fn tree(config: &CatalogConfig, names: &Names, rulebook: &Rulebook) -> SupervisorSpec {
    let catalogs = child_spec(std::slice::from_ref(config), names, rulebook).expect("a catalog");
    SupervisorSpec::new(Strategy::OneForOne).child(catalogs)
}

fn other(rulebook: &Rulebook, slot: Slot<Other>, worked: &Arc<AtomicUsize>) -> ChildSpec {
    let (rulebook, worked) = (rulebook.clone(), worked.clone());
    let make = move |_: &_| Ok(Other { worked: worked.clone(), changes: rulebook.state_change_once("lab") });
    ChildSpec::worker("other", Factory::actor(slot, make))
}

fn beside() -> (Mailbox<Other>, Slot<Other>, Rulebook, Arc<AtomicUsize>) {
    let (mailbox, slot) = mailbox::<Other>(64);
    (mailbox, slot, Rulebook::default(), Arc::default())
}

#[test]
fn actors_plan_and_work() {
    let server = Ermrest::start(&[]);
    server.insert_foo(20, "actionable");
    let (mailbox, slot, rulebook, worked) = beside();
    let names = Names {
        handlers: [("other".to_owned(), mailbox.recipient())].into(),
        planners: [("other".to_owned(), mailbox.recipient())].into(),
    };
    let rules = json!([{
        "name": "work", "table": "Foo", "filter": "state=actionable", "concurrency": 4,
        "handler": { "kind": "actor", "actor": "other" }, "plan": { "kind": "actor", "name": "other" },
        "claim": { "set": { "state": "claimed", "claimed_by": "$token" } }, "done": { "state": "complete" },
    }]);
    let config = config(&server, &rules);
    assert_eq!(check(std::slice::from_ref(&config), &names), Vec::<String>::new());
    assert_eq!(
        check(std::slice::from_ref(&config), &Names::default()).len(),
        2,
        "without them, both are missed"
    );
    let spec = tree(&config, &names, &rulebook).child(other(&rulebook, slot, &worked));
    TestTree::run(spec, async |_tree| {
        eventually("even rows are complete", || complete(&server) == 10).await;
        assert_eq!(worked.load(Relaxed), 10);
        let rows = server.rows("Foo");
        let odd = rows.iter().filter(|row| row["id"].as_u64().is_some_and(|id| id % 2 == 1));
        assert!(odd.into_iter().all(|row| row["state"] == "actionable"), "{rows:?}");
    });
}

#[test]
fn a_state_change_is_made_once_and_is_idle_then() {
    let server = Ermrest::start(&[]);
    server.insert_foo(7, "actionable");
    let rulebook = Rulebook::default();
    let config = config(&server, &json!([]));
    TestTree::run(tree(&config, &Names::default(), &rulebook), async |_tree| {
        let changes = rulebook.state_change_once("lab").expect("a catalog");
        let first = once(&changes, QUERY, "complete", None).await.expect("a change");
        assert_eq!((first.plan.len(), first.etag), (5, None), "as many as the limit: there may be more");
        let second = once(&changes, QUERY, "complete", None).await.expect("a change");
        assert_eq!(second.plan.len(), 2);
        let idle = once(&changes, QUERY, "complete", second.etag).await.expect("a look");
        assert_eq!((idle.plan.len(), idle.etag.is_some()), (0, true));
        let asked = server.answered("GET", 304);
        once(&changes, QUERY, "complete", idle.etag).await.expect("a look");
        assert_eq!(server.answered("GET", 304), asked + 1, "nothing has changed");
        let refused = once(&changes, "/entity/Nowhere?limit=1", "complete", None).await;
        assert!(matches!(refused, Err(ChangeError::Failed(text)) if text.contains("409")));
    });
    assert!(rulebook.state_change_once("other").is_none());
}

#[test]
fn whoever_polls_is_asked_whenever_there_may_be_work() {
    let server = Ermrest::start(&[]);
    server.insert_foo(12, "actionable");
    let (mailbox, slot, rulebook, worked) = beside();
    let config = config(&server, &json!([]));
    let spec = tree(&config, &Names::default(), &rulebook).child(other(&rulebook, slot, &worked));
    TestTree::run(spec, async |_tree| {
        let poll = rulebook.blocking_poll("lab").expect("a catalog");
        poll.tell(BlockingPoll { look_for_work: mailbox.recipient() }).expect("it has room");
        eventually("all rows are complete", || complete(&server) == 12).await;
        let more: Vec<Value> = (13..=20).map(|id| json!({ "id": id, "state": "actionable" })).collect();
        server.insert("Foo", &more.into(), "");
        eventually("the new ones, too", || complete(&server) == 20).await;
        // The server has written before its answer is here.
        eventually("whoever wrote them knows", || worked.load(Relaxed) >= 20).await;
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
    TestTree::run(tree(&config, &Names::default(), &Rulebook::default()), async |tree| {
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
