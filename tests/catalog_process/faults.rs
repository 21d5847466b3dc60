//! Faults of agents, server and broker: no row is stuck beyond its lease, the process never ends,
//! and the next row is complete within 2 s after the fault.

mod clock;
mod hostile;

use std::{
    fs,
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, Rabbit, eventually, rounds};
use rustix::process::Signal;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Duration of the lease in [`FULL_RULE`].
const LEASE: Duration = Duration::from_secs(5);

/// Duration of an outage: 30 s for the promise, 3 s by default.
fn outage() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_CATALOG_OUTAGE_SECS", 3))
}

/// Maximum time until the next row is complete after a fault, with a margin for short runs on a
/// busy machine.
fn soon() -> Duration {
    Duration::from_secs(if outage().as_secs() >= 30 { 2 } else { 10 })
}

/// A running agent and its server.
struct Fixture {
    server: Ermrest,
    site: CatalogEnv,
    instance: Instance,
    next: u32,
}

impl Fixture {
    fn new(site: impl FnOnce(CatalogEnv) -> CatalogEnv) -> Self {
        Self::with(Ermrest::start(&[]), site)
    }

    fn with(server: Ermrest, site: impl FnOnce(CatalogEnv) -> CatalogEnv) -> Self {
        let site = site(CatalogEnv::new(BINARY, &server).rule(FULL_RULE));
        let instance = site.start();
        eventually("the first poll", || site.rule_status("work")["polls"].as_u64() > Some(0));
        Self { server, site, instance, next: 1_000 }
    }

    fn complete(&self) -> usize {
        self.server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
    }

    /// Inserts a row and returns the time until it is complete.
    fn row(&mut self) -> Duration {
        let begun = Instant::now();
        let id = self.next;
        self.next += 1;
        self.server.insert("Foo", &json!([{ "id": id, "state": "actionable" }]), "");
        eventually("the row to be complete", || {
            self.server.rows("Foo").iter().any(|row| row["id"] == id && row["state"] == "complete")
        });
        begun.elapsed()
    }

    fn await_all(&self) -> Duration {
        let begun = Instant::now();
        eventually("all rows to be complete", || self.complete() == self.server.rows("Foo").len());
        begun.elapsed()
    }

    /// Checks that no child was restarted and the process still runs.
    fn assert_no_restart(&mut self) {
        assert!(self.instance.ended().is_none());
        let (code, tree, _) = self.site.base().cli(&["tree", "--json"]);
        assert_eq!(code, 0);
        let tree: Value = serde_json::from_str(&tree).expect("JSON");
        let mut nodes = vec![&tree["root"]];
        while let Some(node) = nodes.pop() {
            assert_eq!(node["restarts"], 0, "{}", node["path"]);
            nodes.extend(node["children"].as_array().into_iter().flatten());
        }
    }
}

#[test]
fn claims_and_completions_with_lost_answers_are_settled() {
    let mut fixture = Fixture::new(|site| site);
    for _ in 0..5 {
        fixture.server.set_faults(&json!({ "lose_put_reply": 1 }));
        assert!(fixture.row() < soon());
        fixture.server.set_faults(&json!({ "drop_put": 2 }));
        assert!(fixture.row() < soon());
    }
    for row in fixture.server.rows("Foo") {
        assert_eq!(row["attempts"], 1, "claimed once: {row:?}");
    }
    // The server has the last completion before the agent has its answer.
    eventually("the agent to settle all rows", || fixture.site.rule_status("work")["in_progress"] == 0);
    assert_eq!(fixture.site.rule_status("work")["lost"], 0);
    // A user changes the row before the agent asks again. The rule keeps the token in a completed row.
    fixture.server.set_faults(&json!({ "lose_and_hold": "claimed_claimed_by" }));
    fixture.server.insert("Foo", &json!([{ "id": 1, "state": "actionable" }]), "");
    eventually("the row to be lost", || fixture.site.rule_status("work")["lost"] == 1);
    let rows = fixture.server.rows("Foo");
    let row = rows.iter().find(|row| row["id"] == 1).expect("the row");
    assert_eq!((&row["state"], &row["payload"]), (&json!("hold"), &json!("user")), "{row:?}");
    fixture.assert_no_restart();
}

#[test]
fn a_rejected_completion_fails_only_its_row() {
    let mut fixture = Fixture::new(|site| site);
    // The rejected batch is bisected until one row is rejected alone.
    let storm = json!({ "code": 409, "count": 1, "method": "PUT", "path": "claimed_claimed_by", "body": "a constraint" });
    fixture.server.set_faults(&json!({ "storm": storm }));
    fixture.server.insert_foo(1, "actionable");
    fixture.await_all();
    let row = fixture.server.rows("Foo").remove(0);
    assert_eq!(
        (&row["attempts"], row["error"].as_str().map(|error| error.contains("409"))),
        (&json!(2), Some(true)),
        "{row:?}"
    );
    assert!(
        fixture.site.rule_status("work")["unsettled"][0]
            .as_str()
            .is_some_and(|text| text.contains("a constraint"))
    );
    assert!(fixture.row() < soon());
    fixture.assert_no_restart();
}

#[test]
fn rows_are_processed_after_outages_with_503() {
    let mut fixture = Fixture::new(|site| site);
    for (body, retry_after) in [("Transaction aborted.", None), ("busy", None), ("busy", Some("3600"))] {
        let mut storm = json!({ "code": 503, "count": 1_000_000, "body": body });
        if let Some(retry_after) = retry_after {
            storm["retry_after"] = json!(retry_after);
        }
        fixture.server.set_faults(&json!({ "storm": storm }));
        eventually("it to be missed", || {
            fixture.server.response_count("GET", 503) + fixture.server.response_count("PUT", 503) > 0
        });
        sleep(outage());
        // `calm` ends the storm.
        fixture.server.set_faults(&json!({ "calm": true }));
        assert!(fixture.row() < soon(), "{body} {retry_after:?}");
    }
    fixture.assert_no_restart();
}

#[test]
fn a_row_whose_agent_was_killed_is_taken_over_when_its_lease_ends() {
    let server = Ermrest::start(&[]);
    let handler = "concurrency = 20\nhandler = { kind = \"command\", argv = [\"/bin/sleep\", \"60\"] }\n";
    let stuck = CatalogEnv::new(BINARY, &server).rule(FULL_RULE).rule(handler);
    let killed = stuck.start();
    server.insert_foo(20, "actionable");
    eventually("rows to be claimed", || server.rows("Foo").iter().all(|row| row["state"] == "claimed"));
    let fixture = Fixture::with(server, |site| site);
    assert_eq!(fixture.complete(), 0);
    killed.kill_nine();
    let took = fixture.await_all();
    // The margin for clocks that differ is 1 s.
    assert!(took < LEASE + soon() + Duration::from_secs(1), "{took:?}");
    assert_eq!(fixture.site.rule_status("work")["taken_over"], 20);
    assert!(fixture.server.rows("Foo").iter().all(|row| row["attempts"] == 2));
}

#[test]
fn a_stop_releases_rows_and_ends_their_handlers() {
    let server = Ermrest::start(&[]);
    let handler = "concurrency = 2\nhandler = { kind = \"command\", argv = [\"/bin/sleep\", \"600\"] }\n";
    let site = CatalogEnv::new(BINARY, &server).key("grace_ms = 300").rule(FULL_RULE).rule(handler);
    let instance = site.start();
    server.insert_foo(10, "actionable");
    eventually("rows to be worked on", || site.rule_status("work")["working"] == 2);
    let begun = Instant::now();
    assert!(instance.terminate().success());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    for row in server.rows("Foo") {
        assert_eq!((&row["state"], &row["claimed_by"]), (&json!("actionable"), &Value::Null), "{row:?}");
        assert_eq!(row["attempts"], Value::Null);
    }
    let left = fs::read_dir("/proc").expect("processes").flatten().filter(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line == b"/bin/sleep\x00600\x00"
            && fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(site.base().path()))
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn rows_are_found_while_the_broker_is_down_and_notices_resume() {
    let mut broker = Rabbit::start();
    let server = Ermrest::start(&["--amqp", &broker.url()]);
    let url = broker.url();
    let mut fixture = Fixture::with(server, |site| site.notices(&url).key("poll_secs = 3600"));
    eventually("notices to come", || fixture.site.status()["notices"]["up"] == true);
    assert!(fixture.row() < soon(), "by its notice");
    broker.kill_nine();
    eventually("notices to be missed", || fixture.site.status()["notices"]["up"] == false);
    assert!(fixture.row() < soon(), "by polling");
    sleep(outage());
    assert!(fixture.row() < soon());
    broker.start_again();
    let back = Instant::now();
    eventually("notices to come again", || fixture.site.status()["notices"]["up"] == true);
    assert!(back.elapsed() < Duration::from_secs(8) + soon(), "{:?}", back.elapsed());
    assert!(fixture.row() < soon());
    fixture.assert_no_restart();
}

/// The original starves: each notice postpones its poll (CONTRACT CX02).
#[test]
fn endless_notices_do_not_postpone_polls() {
    let url = Rabbit::shared().create_vhost("endless");
    let server = Ermrest::start(&["--amqp", &url]);
    let mut fixture =
        Fixture::with(server, |site| site.notices(&url).key("poll_secs = 3600").key("coalesce_ms = 100"));
    eventually("notices to come", || fixture.site.status()["notices"]["up"] == true);
    // Another client writes to another table every 50 ms.
    let (port, over) = (fixture.server.port(), Instant::now() + outage() + Duration::from_secs(3));
    let noise = spawn(move || {
        let mut id = 0;
        while Instant::now() < over {
            id += 1;
            let body = json!([{ "id": id, "state": "noise" }]).to_string();
            let path = "/ermrest/catalog/1/entity/Other";
            let json = ["Content-Type: application/json"];
            orchestrator_harness::http_tcp(([127, 0, 0, 1], port).into(), "PUT", path, &json, &body);
            sleep(Duration::from_millis(50));
        }
    });
    while Instant::now() + soon() < over {
        assert!(fixture.row() < soon());
    }
    noise.join().expect("it ends");
    fixture.assert_no_restart();
}

#[test]
fn rows_are_processed_after_the_server_was_killed_or_frozen() {
    let mut fixture = Fixture::new(|site| site.key("read_timeout_ms = 1000"));
    fixture.server.freeze();
    sleep(outage());
    fixture.server.thaw();
    assert!(fixture.row() < soon());
    fixture.server.stop();
    eventually("it to be missed", || fixture.site.rule_status("work")["phase"] == "waiting");
    sleep(outage());
    fixture.server.start_again();
    assert!(fixture.row() < soon());
    fixture.assert_no_restart();
}

/// Killed repeatedly at any point, the agent completes every row after at most its lease.
#[test]
fn sigkill_at_any_point_loses_no_row() {
    let server = Ermrest::start(&["--write-ms", "5"]);
    let handler =
        "limit = 10\nhandler = { kind = \"command\", argv = [\"/bin/sh\", \"-c\", 'cat >/dev/null'] }\n";
    let rule = FULL_RULE.replace("$now+5s", "$now+1s").replace("max_attempts = 5", "max_attempts = 1000");
    let site = CatalogEnv::new(BINARY, &server).rule(&rule).rule(handler);
    server.insert_foo(300, "actionable");
    for round in 0..rounds("ORCHESTRATOR_CATALOG_KILL_ROUNDS", 5) {
        let instance = site.start();
        sleep(Duration::from_millis(37 * (round % 13)));
        instance.kill_nine();
    }
    let instance = site.start();
    let complete = || server.rows("Foo").iter().filter(|row| row["state"] == "complete").count();
    eventually("all rows to be complete", || complete() == 300);
    instance.signal(Signal::TERM);
}
