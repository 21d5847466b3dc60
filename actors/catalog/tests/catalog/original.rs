//! Agents of the original: that they work on the stand-in for ERMrest and a real broker shows that these are such as agents find.

use std::collections::{BTreeMap, BTreeSet};

use orchestrator_harness::{DerivaAgent, Done, Ermrest, Rabbit, Step, eventually};
use serde_json::{Value, json};

/// How many rows have this state.
fn count(server: &Ermrest, state: &str) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == state).count()
}

/// Which rows the agents say that they have brought so far, and how often each.
fn rows(done: &[Done], step: Step) -> BTreeMap<i64, usize> {
    let mut rows = BTreeMap::new();
    for one in done.iter().filter(|one| one.step == step) {
        *rows.entry(one.id).or_default() += 1;
    }
    rows
}

#[test]
fn two_agents_share_the_rows_and_hear_of_new_ones() {
    let broker = Rabbit::start_at_default_port();
    let server = Ermrest::start(&["--amqp", &broker.url()]);
    server.insert_foo(40, "actionable");
    let mut agents = ["first", "second"].map(|name| DerivaAgent::start(&server.url(), &broker, 3, name));
    eventually("all rows are complete", || count(&server, "complete") == 40);

    // They poll every ten minutes: only a notice can tell them in time.
    let queues =
        || broker.ctl(&["list_queues", "name"]).lines().filter(|name| name.starts_with("amq.gen")).count();
    eventually("both listen", || queues() == 2);
    let more: Vec<Value> = (41..=60).map(|id| json!({"id": id, "state": "actionable"})).collect();
    server.insert("Foo", &more.into(), "");
    eventually("the new ones are complete, too", || count(&server, "complete") == 60);

    let once: BTreeMap<i64, usize> = (1..=60).map(|id| (id, 1)).collect();
    let mut done = Vec::new();
    eventually("the agents have said so", || {
        done.extend(agents.iter_mut().flat_map(DerivaAgent::done));
        rows(&done, Step::Completed).len() == 60
    });
    assert_eq!(rows(&done, Step::Claimed), once, "each row is claimed by one agent");
    assert_eq!(rows(&done, Step::Completed), once);
    let ids: BTreeSet<_> = server.rows("Foo").iter().map(|row| row["id"].as_i64()).collect();
    assert_eq!(ids.len(), 60, "a write made no row");
}
