//! Situation 23: the system's clock is set by an hour, forward and back (libfaketime).

use std::{fs, path::PathBuf};

use orchestrator_harness::{Instance, TestEnv, wait_for};
use serde_json::Value;

/// Longest age of anything in a test, in milliseconds.
const AGE_MAX_MS: i64 = 600_000;

fn library() -> PathBuf {
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").map_while(Result::ok);
    let mut found = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("libfaketimeMT.so.1 is missing: install faketime")
}

/// Sets the clock of the instance to `offset` from the real time.
fn set_clock(env: &TestEnv, offset: &str) {
    let (file, new) = (env.path().join("offset"), env.path().join("offset.new"));
    fs::write(&new, offset).expect("write the offset");
    fs::rename(new, file).expect("replace the offset at once");
}

/// Calls `visit` for each time below `value`, with its key.
fn times<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a str, i64)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| match value.as_i64() {
            Some(at) if ["at_ms", "since_ms", "started_ms"].contains(&key.as_str()) => visit(key, at),
            _ => times(value, visit),
        }),
        Value::Array(items) => items.iter().for_each(|item| times(item, visit)),
        _ => {}
    }
}

fn assert_ages(env: &TestEnv) {
    for command in ["tree", "why"] {
        let (code, text, error) = env.cli(&[command, "--json"]);
        assert_eq!(code, 0, "{error}");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        let now = answer["captured_at_ms"].as_i64().or(answer["at_ms"].as_i64()).expect("a time");
        times(&answer, &mut |key, at| {
            let age = now - at;
            assert!((-1_000..AGE_MAX_MS).contains(&age), "{command}: {key} is {age} ms old in {answer:#}");
        });
    }
}

#[test]
fn a_clock_that_jumps_by_an_hour_is_named_and_no_age_is_wrong() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    set_clock(&env, "+0");
    let mut command = env.command();
    command.env("LD_PRELOAD", library()).env("FAKETIME_TIMESTAMP_FILE", env.path().join("offset"));
    for switch in ["FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC"] {
        command.env(switch, "1");
    }
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    // A cause from before the jump.
    env.first_cause("queue", "no fetcher file");
    assert_ages(&env);
    for (offset, direction) in [("+3600", "forward"), ("+0", "back")] {
        set_clock(&env, offset);
        let start =
            format!("orchestrator:\n  1. orchestrator: the system clock jumped {direction} by 3600 s (for ");
        let why = wait_for("the jump", || Some(env.cli(&["why"]).1).filter(|why| why.starts_with(&start)));
        assert!(why.contains("do: timedatectl; "), "{why}");
        assert!(why.contains("no fetcher file"), "{why}");
        assert_ages(&env);
    }
}
