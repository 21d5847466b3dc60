//! What goes wrong between agents, their catalog and the broker: no row is stuck beyond its lease, the process never ends, and the next
//! row comes within 2 s of the end of it.

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
/// What a row's lease is in [`FULL_RULE`].
const LEASE: Duration = Duration::from_secs(5);

/// How long a broker stays away, seconds: 30 where the promise is tested, a moment else.
fn outage() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_CATALOG_OUTAGE_SECS", 3))
}

/// In which the next row is done after a fault; a machine with other things to do may take longer.
fn soon() -> Duration {
    Duration::from_secs(if outage().as_secs() >= 30 { 2 } else { 10 })
}

/// An agent at work, and its server.
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
        eventually("the first look", || site.rule_status("work")["looks"].as_u64() > Some(0));
        Self { server, site, instance, next: 1_000 }
    }

    fn complete(&self) -> usize {
        self.server.rows("Foo").iter().filter(|row| row["state"] == "complete").count()
    }

    /// A row of its own, and how long it takes until it is complete.
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

    /// Nobody was restarted, and the process is there.
    fn assert_calm(&mut self) {
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
fn claims_and_completions_whose_answers_are_lost_are_settled() {
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
    let status = fixture.site.rule_status("work");
    assert_eq!((&status["lost"], &status["in_progress"]), (&json!(0), &json!(0)), "{status}");
    fixture.assert_calm();
}

#[test]
fn a_completion_that_is_refused_fails_that_row_and_no_other() {
    let mut fixture = Fixture::new(|site| site);
    // The first batch of completions is refused whole, and in halves, until one row is left that is refused alone.
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
    fixture.assert_calm();
}

#[test]
fn storms_of_503_are_sat_out() {
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
        // The storm ends: what is left of it is none.
        fixture.server.set_faults(&json!({ "calm": true }));
        assert!(fixture.row() < soon(), "{body} {retry_after:?}");
    }
    fixture.assert_calm();
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
    // The margin for other clocks is a second.
    assert!(took < LEASE + soon() + Duration::from_secs(1), "{took:?}");
    assert_eq!(fixture.site.rule_status("work")["taken_over"], 20);
    assert!(fixture.server.rows("Foo").iter().all(|row| row["attempts"] == 2));
}

#[test]
fn the_stop_gives_back_what_is_not_begun_and_ends_what_is() {
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
fn a_broker_that_was_killed_is_bound_again_and_rows_are_found_meanwhile() {
    let mut broker = Rabbit::start();
    let server = Ermrest::start(&["--amqp", &broker.url()]);
    let url = broker.url();
    let mut fixture = Fixture::with(server, |site| site.notices(&url).key("poll_secs = 3600"));
    eventually("notices to come", || fixture.site.status()["notices"]["there"] == true);
    assert!(fixture.row() < soon(), "by its notice");
    broker.kill_nine();
    eventually("notices to be missed", || fixture.site.status()["notices"]["there"] == false);
    assert!(fixture.row() < soon(), "by polling");
    sleep(outage());
    assert!(fixture.row() < soon());
    broker.start_again();
    let back = Instant::now();
    eventually("notices to come again", || fixture.site.status()["notices"]["there"] == true);
    assert!(back.elapsed() < Duration::from_secs(8) + soon(), "{:?}", back.elapsed());
    assert!(fixture.row() < soon());
    fixture.assert_calm();
}

/// The original starves: each notice makes it wait for the next one.
#[test]
fn notices_without_end_do_not_keep_it_from_looking() {
    let url = Rabbit::shared().create_vhost("endless");
    let server = Ermrest::start(&["--amqp", &url]);
    let mut fixture =
        Fixture::with(server, |site| site.notices(&url).key("poll_secs = 3600").key("coalesce_ms = 100"));
    eventually("notices to come", || fixture.site.status()["notices"]["there"] == true);
    // Somebody writes every 50 ms, to another table.
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
    fixture.assert_calm();
}

#[test]
fn a_server_that_was_killed_or_frozen_is_found_again() {
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
    fixture.assert_calm();
}

/// Killed again and again, at any point: each row is complete in the end, and none was left to its lease for longer.
#[test]
fn kill_nine_at_any_point_loses_no_row() {
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
