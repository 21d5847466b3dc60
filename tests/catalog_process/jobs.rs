//! Rows of a catalog as jobs of the queue in the same process (CONTRACT CF16, QO12).

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    CatalogEnv, Controller, Ermrest, Instance, JobWorkers, Redis, eventually, free_port,
    load::{SeededRng, for_each_seed},
};
use rustix::process::Signal;
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
    let (_, tree, _) = env.base().cli(&["tree"]);
    let row = tree.lines().find(|line| line.contains(" work ")).expect("the rule's row");
    assert!(row.contains("-> queue/offers"), "{row}");
    let (_, graph, _) = env.base().cli(&["graph"]);
    let arrow = "\"orchestrator/catalog/lab/rules/work\" -> \"orchestrator/queue/offers\" [style=dashed";
    assert!(graph.contains(arrow), "{graph}");
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

#[test]
fn a_queue_that_is_paused_stopped_or_given_up_is_named_and_loses_no_row() {
    let server = Ermrest::start(&[]);
    let env = environment(&server, RULE);
    let instance = start(&env);
    let base = env.base();
    let workers = JobWorkers::start(base.socket(), 4, |_, _| 0);
    let mut count = 0;
    let mut insert = |rows: usize| {
        let rows: Vec<_> =
            (1..=rows).map(|row| json!({ "id": count + row, "state": "actionable" })).collect();
        count += rows.len();
        server.insert("Foo", &rows.into(), "");
        count
    };
    let steer = |arguments: &[&str]| {
        let (code, _, error) = base.cli(arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
    };
    await_complete(&server, insert(20));
    let before = instance.memory("VmRSS");

    steer(&["queue", "pause", "--reason", "maintenance"]);
    let all = insert(500);
    let cause = base.first_cause("catalog", "waits for queue/queue_console: ");
    assert!(cause.text.contains("paused"), "{cause:?}");
    assert_eq!(cause.path, "catalog/lab/rules/work");
    assert!(cause.evidence.iter().any(|fact| fact.contains("maintenance")), "{cause:?}");
    assert!(cause.help.contains("resume"), "{cause:?}");
    // Longer than a lease, which is renewed.
    sleep(Duration::from_millis(2_500));
    assert_eq!(states(&server).get("complete"), Some(&20));
    steer(&["queue", "resume"]);
    await_complete(&server, all);

    steer(&["stop", "queue"]);
    let all = insert(20);
    let cause = base.first_cause("catalog", "waits for queue: stopped by an operator");
    assert_eq!(cause.help, "orchestrator start queue");
    steer(&["start", "queue"]);
    await_complete(&server, all);

    base.exceed_restarts("queue");
    let all = insert(20);
    base.first_cause("catalog", "waits for queue: given up: panicked: injected panic");
    steer(&["start", "queue"]);
    for row in await_complete(&server, all) {
        assert_eq!((&row["doc"], &row["attempts"]), (&json!(1), &json!(1)), "{row:?}");
    }
    assert_eq!(workers.taken().len(), all);
    let grown = instance.memory("VmRSS").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more than before");
}

#[test]
fn the_shipped_pipeline_connects_catalog_ingester_and_queue() {
    let (server, redis) = (Ermrest::start(&["--tables", "Image"]), Redis::start());
    let env = CatalogEnv::new(BINARY, &server);
    let base = env.base();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/pipeline.toml");
    let text = fs::read_to_string(shipped).expect("the configuration");
    let mut config = text;
    for (shipped, here) in [
        ("http://localhost:8080/ermrest/catalog/1", server.url()),
        ("redis://localhost:6379/0", redis.url()),
        ("127.0.0.1:10010", format!("127.0.0.1:{}", free_port())),
    ] {
        assert!(config.contains(shipped), "{shipped}");
        config = config.replace(shipped, &here);
    }
    fs::create_dir(base.path().join("var")).expect("a directory");
    fs::write(base.path().join("pipeline.toml"), config).expect("write the configuration");
    let mut command = base.command();
    command.args(["--config", "pipeline.toml"]);
    let instance = Instance::spawn(command);
    instance.await_service(base);
    let workers = JobWorkers::start(base.socket(), 2, |_, _| 0);
    let rows: Vec<_> = (1..=5).map(|row| json!({ "id": row, "state": "new" })).collect();
    server.insert("Image", &rows.into(), "");
    let controller = Controller::new(&redis, "eiger-ingester");
    eventually("the ingester to register", || controller.ingester_state().is_some());
    eventually("the ingester to connect to Redis", || base.cli(&["tree"]).1.contains("redis up"));
    let mapping = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
    controller.start_mapping(mapping, &["eiger"]);
    controller.publish_update(&Controller::update_json(mapping, &["eiger"], true));
    eventually("the rows to be complete", || {
        server.rows("Image").iter().all(|row| row["state"] == "complete")
    });
    eventually("the mapping's job", || workers.taken().contains_key(mapping));
    assert_eq!(workers.taken()[mapping], ["var/eiger.cbors 0"]);
    assert_eq!(workers.taken().len(), 6);
}

#[test]
fn a_stop_releases_waiting_rows_and_the_next_start_counts_the_report_of_a_worker() {
    let server = Ermrest::start(&[]);
    let env = environment(&server, RULE);
    let instance = start(&env);
    let base = env.base();
    let (hold, begun) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (held, count) = (hold.clone(), begun.clone());
    let workers = JobWorkers::start(base.socket(), 2, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        eventually("the end of the work", || !held.load(Ordering::Relaxed));
        0
    });
    server.insert_foo(6, "actionable");
    eventually("two jobs to be in flight", || begun.load(Ordering::Relaxed) == 2);
    eventually("the other rows to be claimed", || states(&server).get("claimed") == Some(&6));
    // Twice, since the second process takes over the claims of the first.
    let stop = |instance: Instance| {
        let begun = Instant::now();
        assert!(instance.terminate().success());
        assert!(begun.elapsed() < Duration::from_secs(8), "it waited for the workers: {:?}", begun.elapsed());
        assert_eq!(
            states(&server),
            BTreeMap::from([("actionable".to_owned(), 4), ("claimed".to_owned(), 2)])
        );
    };
    stop(instance);
    let instance = start(&env);
    eventually("the claims to be taken over", || {
        let (_, status, _) = base.cli(&["catalog", "status", "--json"]);
        serde_json::from_str::<Value>(&status)
            .is_ok_and(|status| status[0]["rules"]["work"]["taken_over"] == 2)
    });
    stop(instance);
    let _instance = start(&env);
    hold.store(false, Ordering::Relaxed);
    for row in await_complete(&server, 6) {
        assert_eq!(row["doc"], 1, "ended twice: {row:?}");
    }
    let taken = workers.taken();
    assert!(taken.len() == 6 && taken.values().all(|times| times.len() == 1), "{taken:?}");
}

#[test]
fn a_stop_that_waits_for_a_handler_says_so_everywhere() {
    let server = Ermrest::start(&[]);
    let queue = "kind = \"queue\", attr_path = \"img/$row.id\", payload = \"$row.state of $row.id\", dead_codes = [64]";
    let command = "kind = \"command\", argv = [\"/bin/sh\", \"-c\", \"cat >/dev/null; touch begun; until [ -e end ]; do sleep 0.05; done\"]";
    let rule = RULE.replace(queue, command).replace("$result.exit_code", "$row.id");
    assert!(rule.contains(command));
    let env = environment(&server, &rule);
    let mut instance = start(&env);
    let base = env.base();
    server.insert_foo(1, "actionable");
    eventually("the handler to run", || base.path().join("begun").exists());
    instance.signal(Signal::TERM);
    let text = "stops: waits for catalog/lab/rules/work";
    for command in ["why", "health", "tree"] {
        eventually(command, || {
            let (_, out, _) = base.cli(&[command]);
            out.contains(text) && out.contains(" s more")
        });
    }
    fs::write(base.path().join("end"), "").expect("write");
    assert!(instance.wait().success());
    assert_eq!(base.log().matches(text).count(), 1, "{}", base.log());
    await_complete(&server, 1);
}
