//! Rows of a catalog as jobs of the queue in the same process (CONTRACT CF16, QO12).

use std::{collections::BTreeMap, thread::sleep, time::Duration};

use orchestrator_harness::{
    CatalogEnv, Ermrest, Instance, JobWorkers, eventually,
    load::{SeededRng, for_each_seed},
};
use serde_json::{Map, Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Rule whose rows are jobs. `doc` counts the ends of a row.
const RULE: &str = r#"
[[catalog.rule]]
name = "work"
table = "Foo"
filter = "state=actionable"
sort = "id"
limit = 16
concurrency = 16
attempts_column = "attempts"
max_attempts = 3
backoff = { first_ms = 50, max_ms = 200 }
handler = { kind = "queue", attr_path = "img/$row.id", payload = "$row.state of $row.id", dead_codes = [64] }
claim.set = { state = "claimed", claimed_by = "$token", lease_until = "$now+2s", attempts = "$row.attempts+1" }
done = { state = "complete", lease_until = "$null", doc = "$row.doc+1", payload = "$result.exit_code" }
fail = { state = "actionable", claimed_by = "$null", lease_until = "$null", error = "$error" }
dead = { state = "dead", claimed_by = "$null", lease_until = "$null", doc = "$row.doc+1", error = "$error", payload = "$result.exit_code" }
"#;

fn environment(server: &Ermrest, rule: &str) -> CatalogEnv {
    CatalogEnv::new(BINARY, server).rule(rule)
}

/// Starts queue and catalog in one process.
fn start(env: &CatalogEnv) -> Instance {
    let mut command = env.base().command();
    command.arg("--config").arg(env.write());
    let instance = Instance::spawn(command);
    instance.await_service(env.base());
    instance
}

fn states(server: &Ermrest) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for row in server.rows("Foo") {
        *states.entry(row["state"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    states
}

fn await_complete(server: &Ermrest, count: usize) -> Vec<Map<String, Value>> {
    eventually(&format!("{count} rows to be complete"), || states(server).get("complete") == Some(&count));
    server.rows("Foo")
}

#[test]
fn workers_reports_settle_the_rows() {
    let server = Ermrest::start(&[]);
    let env = environment(&server, RULE);
    let instance = start(&env);
    // The number of a row decides how its job ends; a failed attempt is repeated.
    let workers = JobWorkers::start(env.base().socket(), 4, |attr_path, _| {
        match attr_path.trim_start_matches("img/").parse::<u32>().expect("a number") % 10 {
            3 => 1,
            7 => 64,
            _ => 0,
        }
    });
    server.insert_foo(40, "actionable");
    eventually("all rows to be settled", || {
        states(&server) == BTreeMap::from([("complete".to_owned(), 32), ("dead".to_owned(), 8)])
    });
    for row in server.rows("Foo") {
        let id = row["id"].as_u64().expect("a number");
        let (attempts, payload, error) = match id % 10 {
            3 => (3, json!("1"), Some("the worker reported exit code 1 after ")),
            7 => (1, json!("64"), Some("the worker reported exit code 64 after ")),
            _ => (1, json!("0"), None),
        };
        assert_eq!((&row["attempts"], &row["doc"]), (&json!(attempts), &json!(1)), "{row:?}");
        assert_eq!(
            row["payload"].as_str().map_or(row["payload"].to_string(), str::to_owned),
            payload.as_str().unwrap_or_default(),
            "{row:?}"
        );
        assert!(
            error.is_none_or(|error| row["error"].as_str().is_some_and(|text| text.starts_with(error))),
            "{row:?}"
        );
    }
    let taken = workers.taken();
    assert_eq!(taken.len(), 40);
    assert_eq!(taken["img/1"], ["actionable of 1"]);
    assert_eq!(taken["img/3"].len(), 3);
    // Nothing is left of the jobs, and the rule's run stays.
    env.base().database().expect("SELECT count(*) FROM queue", &["0"]);
    env.base().database().expect("SELECT count(*) FROM orchestrator_offer", &["0"]);
    assert!(instance.terminate().success());
}

#[test]
fn sigkill_at_any_point_loses_no_row_and_ends_none_twice() {
    let server = Ermrest::start(&["--write-ms", "2"]);
    let env = environment(
        &server,
        &RULE.replace("max_attempts = 3", "max_attempts = 100000").replace("$now+2s", "$now+1s"),
    );
    let workers = JobWorkers::start(env.base().socket(), 6, |_, _| {
        sleep(Duration::from_millis(3));
        0
    });
    let mut count = 0;
    for_each_seed("ORCHESTRATOR_PIPELINE_KILL_ROUNDS", 20, |seed| {
        let mut random = SeededRng::new(seed);
        let rows: Vec<_> = (1..=8).map(|row| json!({ "id": count + row, "state": "actionable" })).collect();
        count += 8;
        server.insert("Foo", &rows.into(), "");
        let instance = start(&env);
        sleep(Duration::from_micros(random.below(400_000) as u64));
        instance.kill_nine();
    });
    let _instance = start(&env);
    for row in await_complete(&server, count) {
        assert_eq!(row["doc"], 1, "ended twice: {row:?}");
    }
    assert_eq!(workers.taken().len(), count, "each row was a job");
    env.base().database().expect("SELECT count(*) FROM orchestrator_offer WHERE state < 2", &["0"]);
}
