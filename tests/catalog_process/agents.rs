//! Several agents on one table: each row is claimed once and completed, whoever works beside whom.

use std::{collections::BTreeMap, fs};

use orchestrator_harness::{AgentStep, CatalogEnv, DerivaAgent, Ermrest, FULL_RULE, Rabbit, eventually};
use serde_json::{Map, Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const ROWS: u32 = 200;
/// Each write of the server takes so long, and aborts those that meet it.
const SLOW: [&str; 2] = ["--write-ms", "20"];

/// A handler that notes each row that it is given.
fn noting(site: &CatalogEnv) -> String {
    let notes = site.base().path().join("notes.jsonl");
    format!(
        "handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", 'cat >> {}'] }}\nconcurrency = 8\nlimit = 40\n",
        notes.display()
    )
}

/// How often each row was handed to a handler.
fn handled(sites: &[CatalogEnv]) -> BTreeMap<i64, usize> {
    let mut handled = BTreeMap::new();
    for site in sites {
        let notes = fs::read_to_string(site.base().path().join("notes.jsonl")).unwrap_or_default();
        for line in notes.lines() {
            let row: Map<String, Value> = serde_json::from_str(line).expect("a row a line");
            *handled.entry(row["id"].as_i64().expect("a number")).or_default() += 1;
        }
    }
    handled
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

/// All rows are complete, each was claimed once by one agent, and worked on once.
fn assert_once(server: &Ermrest, sites: &[CatalogEnv]) {
    eventually("all rows to be complete", || complete(server) == ROWS as usize);
    let handled = handled(sites);
    assert_eq!(handled.len(), ROWS as usize);
    assert!(handled.values().all(|times| *times == 1), "{handled:?}");
    for row in server.rows("Foo") {
        assert_eq!(row["attempts"], 1, "{row:?}");
        assert!(row["claimed_by"].as_str().is_some_and(|token| token.contains('/')), "{row:?}");
    }
}

fn agents(count: usize, guard: &str) {
    let url = Rabbit::shared().create_vhost(&format!("{count}-{guard}"));
    let server = Ermrest::start(&[&SLOW[..], &["--amqp", &url]].concat());
    let mut sites = Vec::new();
    for _ in 0..count {
        let site = CatalogEnv::new(BINARY, &server).notices(&url);
        let handler = noting(&site);
        let rule = FULL_RULE.replace("claim.set", &format!("claim.guard = {guard:?}\nclaim.set"));
        sites.push(site.rule(&rule).rule(&handler));
    }
    let _instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    for site in &sites {
        eventually("notices to come", || site.status()["notices"]["there"] == true);
    }
    server.insert_foo(ROWS, "actionable");
    assert_once(&server, &sites);
    let claimed: u64 =
        sites.iter().map(|site| site.rule_status("work")["claimed"].as_u64().expect("a count")).sum();
    assert_eq!(claimed, u64::from(ROWS));
}

#[test]
fn eight_agents() {
    agents(8, "row-cas");
}

#[test]
fn four_agents_that_guard_by_etag() {
    agents(4, "if-match");
}

/// They guard by ETag, we by row: neither takes a row that the other one has.
#[test]
fn two_agents_beside_two_of_the_original() {
    let broker = Rabbit::start_at_default_port();
    let server = Ermrest::start(&[&SLOW[..], &["--amqp", &broker.url()]].concat());
    // Small claims, so that the others get some.
    let sites: Vec<_> = (0..2)
        .map(|_| CatalogEnv::new(BINARY, &server).notices(&broker.url()))
        .map(|site| {
            let handler = noting(&site)
                .replace("limit = 40", "limit = 4")
                .replace("concurrency = 8", "concurrency = 2");
            // A row takes its time, and few are in hand: most are there for the others, however quick the machine is.
            let handler = handler.replace(".jsonl'", ".jsonl; sleep 0.2'");
            site.rule(FULL_RULE).rule(&handler)
        })
        .collect();
    let mut originals = ["first", "second"].map(|name| DerivaAgent::start(&server.url(), &broker, 5, name));
    let queues =
        || broker.ctl(&["list_queues", "name"]).lines().filter(|name| name.starts_with("amq.gen")).count();
    eventually("the originals to listen", || queues() == 2);
    let _instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    eventually("all to listen", || queues() == 4);
    server.insert_foo(ROWS, "actionable");
    eventually("all rows to be complete", || complete(&server) == ROWS as usize);
    let mut times = handled(&sites);
    let ours = times.len();
    let mut said = Vec::new();
    eventually("all rows to be told of", || {
        said.extend(originals.iter_mut().flat_map(DerivaAgent::events));
        ours + said.iter().filter(|done| done.step == AgentStep::Completed).count() >= ROWS as usize
    });
    for done in said.iter().filter(|done| done.step == AgentStep::Claimed) {
        *times.entry(done.id).or_default() += 1;
    }
    assert_eq!(times.len(), ROWS as usize);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    for row in server.rows("Foo") {
        // The originals write neither.
        let by_us = row["claimed_by"].is_string();
        assert_eq!(row["attempts"], if by_us { json!(1) } else { Value::Null }, "{row:?}");
    }
    assert!(ours > 0 && ours < ROWS as usize, "both have had some: {ours} ours");
}
