//! Several agents on one table: each row is claimed and completed once, also beside agents of the
//! original.

use std::{collections::BTreeMap, fs};

use orchestrator_harness::{AgentStep, CatalogEnv, DerivaAgent, Ermrest, FULL_RULE, Rabbit, eventually};
use serde_json::{Map, Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const ROWS: u32 = 200;
/// Duration of each write of the server, which aborts concurrent writes.
const SLOW: [&str; 2] = ["--write-ms", "20"];

/// A handler that records each row.
fn recording_handler(site: &CatalogEnv) -> String {
    let notes = site.base().path().join("notes.jsonl");
    format!(
        "handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", 'cat >> {}'] }}\nconcurrency = 8\nlimit = 40\n",
        notes.display()
    )
}

/// Number of runs by row.
fn handler_runs(sites: &[CatalogEnv]) -> BTreeMap<i64, usize> {
    let mut handler_runs = BTreeMap::new();
    for site in sites {
        let notes = fs::read_to_string(site.base().path().join("notes.jsonl")).unwrap_or_default();
        for line in notes.lines() {
            let row: Map<String, Value> = serde_json::from_str(line).expect("a row a line");
            *handler_runs.entry(row["id"].as_i64().expect("a number")).or_default() += 1;
        }
    }
    handler_runs
}

fn complete(server: &Ermrest) -> usize {
    server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
}

/// Checks that all rows are complete, and that each was claimed and processed once.
fn assert_once(server: &Ermrest, sites: &[CatalogEnv]) {
    eventually("all rows to be complete", || complete(server) == ROWS as usize);
    let handler_runs = handler_runs(sites);
    assert_eq!(handler_runs.len(), ROWS as usize);
    assert!(handler_runs.values().all(|times| *times == 1), "{handler_runs:?}");
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
        let handler = recording_handler(&site);
        let rule = FULL_RULE.replace("claim.set", &format!("claim.guard = {guard:?}\nclaim.set"));
        sites.push(site.rule(&rule).rule(&handler));
    }
    let _instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    for site in &sites {
        eventually("notices to come", || site.status()["notices"]["up"] == true);
    }
    server.insert_foo(ROWS, "actionable");
    assert_once(&server, &sites);
    let claimed: u64 =
        sites.iter().map(|site| site.rule_status("work")["claimed"].as_u64().expect("a count")).sum();
    assert_eq!(claimed, u64::from(ROWS));
}

#[test]
fn eight_agents_claim_each_row_once() {
    agents(8, "row-cas");
}

#[test]
fn four_agents_with_etag_guards_claim_each_row_once() {
    agents(4, "if-match");
}

/// The originals guard by ETag, ours by row: neither claims a row that the other one has.
#[test]
fn two_agents_beside_two_originals_claim_each_row_once() {
    let broker = Rabbit::shared();
    let server = Ermrest::start(&[&SLOW[..], &["--amqp", &broker.url()]].concat());
    // Small claims leave rows to the other agents.
    let sites: Vec<_> = (0..2)
        .map(|_| CatalogEnv::new(BINARY, &server).notices(&broker.url()))
        .map(|site| {
            let handler = recording_handler(&site)
                .replace("limit = 40", "limit = 4")
                .replace("concurrency = 8", "concurrency = 2");
            // A slow handler with few claimed rows leaves most rows to the others, on any machine.
            let handler = handler.replace(".jsonl'", ".jsonl; sleep 0.2'");
            site.rule(FULL_RULE).rule(&handler)
        })
        .collect();
    let mut originals = ["first", "second"].map(|name| DerivaAgent::start(&server.url(), broker, 5, name));
    let queues =
        || broker.queues("/", "consumers").iter().filter(|(name, _)| name.starts_with("amq.gen")).count();
    eventually("the originals to listen", || queues() == 2);
    let _instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    eventually("all to listen", || queues() == 4);
    server.insert_foo(ROWS, "actionable");
    eventually("all rows to be complete", || complete(&server) == ROWS as usize);
    let mut times = handler_runs(&sites);
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
        // The originals write neither column.
        let by_us = row["claimed_by"].is_string();
        assert_eq!(row["attempts"], if by_us { json!(1) } else { Value::Null }, "{row:?}");
    }
    assert!(ours > 0 && ours < ROWS as usize, "both have had some: {ours} ours");
}
