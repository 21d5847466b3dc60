//! Errors of an ingester in dranspose's log in Redis, which the controller shows: one line per error, and no
//! more lines than the original keeps.

use std::time::{SystemTime, UNIX_EPOCH};

use orchestrator_harness::{IngesterEnv, Redis, eventually};
use serde_json::Value;

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
/// Address without a listener.
const NOWHERE: &str = "tcp://127.0.0.1:1";
const KEY: &str = "dranspose_logs";

/// Log line: level, name, text and time.
type Line = (String, String, String, f64);

/// Reads all lines and checks that they have the original's fields in its order.
fn lines(redis: &Redis) -> Vec<Line> {
    let entries = redis.command(&["XRANGE", KEY, "-", "+"]);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let line = |entry: &Value| {
        let fields: Vec<_> = entry[1].as_array().expect("fields").iter().map(text).collect();
        let names: Vec<_> = fields.iter().step_by(2).map(String::as_str).collect();
        assert_eq!(names, ["msg", "lineno", "name", "created", "levelname"]);
        fields[3].parse::<u32>().expect("a number");
        (fields[9].clone(), fields[5].clone(), fields[1].clone(), fields[7].parse().expect("seconds"))
    };
    entries.as_array().expect("entries").iter().map(line).collect()
}

#[test]
fn each_error_is_logged_once_by_its_ingester() {
    let env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), NOWHERE, "");
    env.add_ingester("pilatus", NOWHERE);
    for _ in 0..3_000 {
        let other = ["msg", "hello", "lineno", "7", "name", "w1", "created", "1.5", "levelname", "INFO"];
        env.redis.command(&[&["XADD", KEY, "*"][..], &other].concat());
    }
    let _instance = env.start();
    env.base.inject_panic("ingester/eiger-ingester/scan/assign");
    env.base.inject_panic("ingester/pilatus-ingester/scan/assign");
    env.controller().start_mapping(MAPPING, &["eiger"]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let wanted = [
        ("ERROR", "eiger-ingester/scan/assign", "panicked: injected panic"),
        ("ERROR", "pilatus-ingester/scan/assign", "panicked: injected panic"),
        ("WARNING", "eiger-ingester/scan/stream_0", "start the source there"),
    ];
    let count = |lines: &[Line], (level, path, text): (&str, &str, &str)| {
        let path = format!("orchestrator/ingester/{path}");
        lines.iter().filter(|line| line.0 == level && line.1 == path && line.2.contains(text)).count()
    };
    eventually("all errors to be logged", || {
        let lines = lines(&env.redis);
        wanted.iter().all(|one| count(&lines, *one) > 0)
    });
    // A restarted child does not log its errors again.
    env.base.inject_panic("ingester/eiger-ingester/log");
    env.base.inject_panic("ingester/eiger-ingester/accept");
    let last = ("ERROR", "eiger-ingester/accept", "panicked: injected panic");
    eventually("the next error to be logged", || count(&lines(&env.redis), last) > 0);
    let lines = lines(&env.redis);
    for one in wanted {
        assert_eq!(count(&lines, one), 1, "{one:?} of {lines:?}");
    }
    let ours = lines.iter().filter(|line| line.1.starts_with("orchestrator/"));
    assert!(ours.clone().all(|line| (line.3 - now).abs() < 120.0), "times are seconds since 1970");
    assert!(lines.len() < 1_200, "{} lines are kept", lines.len());
}

/// Log lines wait while Redis is down.
#[test]
fn a_redis_outage_is_logged_after_it_ends() {
    let mut env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), NOWHERE, "");
    let _instance = env.start();
    env.redis.kill_nine();
    eventually("the link to be down", || env.base.link("ingester/eiger-ingester/redis").state == "down");
    env.redis.start_again();
    eventually("the outage to be logged", || {
        let is_outage = |line: &Line| line.0 == "WARNING" && line.2.contains("check that Redis runs at");
        lines(&env.redis).iter().any(is_outage)
    });
}
