//! The samples of the history over the end of the process.

use std::{fs, path::PathBuf};

use orchestrator_harness::{Instance, SmallDisk, TestEnv, eventually, http, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const NOTHING: &[&str] = &["Accept: application/json"];

/// Times of the samples of the queue's branch.
fn times(env: &TestEnv) -> Vec<u64> {
    let reply = http(&env.admin_socket(), "GET", "/v1/history?path=queue&metric=child_state", NOTHING, "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let times = reply.json()["at_ms"].as_array().cloned().unwrap_or_default();
    times.iter().filter_map(Value::as_u64).collect()
}

fn first_sample(env: &TestEnv) -> u64 {
    wait_for("a sample", || times(env).first().copied())
}

/// The files of the history beside the queue's database.
fn files(env: &TestEnv) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(env.path()).expect("the directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.to_string_lossy().contains("history-")).collect()
}

#[test]
fn a_planned_restart_keeps_the_history() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = env.start();
    let first = first_sample(&env);
    let before = times(&env);
    assert!(instance.terminate().success());
    assert!(files(&env).len() == 1 && !env.path().join("var").exists(), "{:?}", files(&env));

    let instance = env.start();
    eventually("a sample of the second process", || times(&env).len() > before.len());
    let times = times(&env);
    assert!(times.starts_with(&before), "{times:?} after {before:?}");
    let url = format!("/v1/tree?at={first}");
    let past = http(&env.admin_socket(), "GET", &url, NOTHING, "");
    assert_eq!(past.status, 200, "the tree of the first process: {}", past.body);
    assert!(instance.terminate().success());
}

#[test]
fn a_damaged_history_and_one_of_the_former_format_are_dropped_with_a_warning() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = env.start();
    let first = first_sample(&env);
    assert!(instance.terminate().success());
    let path = files(&env).pop().expect("the history");
    let mut damaged = fs::read(&path).expect("the history");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let mut former = damaged.clone();
    former[..8].copy_from_slice(b"orchist1");

    for (bytes, reason) in [
        (damaged, "it is damaged: its checksum does not match"),
        (former, "it has the format of an earlier version, and is removed"),
    ] {
        fs::write(&path, bytes).expect("replace the history");
        let instance = env.start();
        assert!(first_sample(&env) > first);
        let line = format!("the history begins empty: {}: {reason}", path.display());
        assert!(env.log().contains(&line), "{}", env.log());
        assert!(instance.terminate().success());
    }
    let instance = env.start();
    assert!(first_sample(&env) > first, "a valid file replaced them");
    assert_eq!(env.log().matches("the history begins empty").count(), 2);
    assert!(instance.terminate().success());
}

#[test]
fn a_history_that_cannot_be_written_is_a_warning() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.history_dir=var");
    fs::write(env.path().join("var"), "not a directory").expect("write");
    let instance = env.start();
    first_sample(&env);
    assert!(instance.terminate().success());
    assert!(env.log().contains("the history is not kept"), "{}", env.log());
}

/// A stop on a full disk ends in time. The file of before stays, or there is none.
#[test]
fn a_full_disk_below_the_history_is_a_warning_and_damages_nothing() {
    SmallDisk::with(1, "history::a_full_disk_below_the_history_is_a_warning_and_damages_nothing", |disk| {
        let directory = disk.path().display().to_string();
        let env =
            TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set(&format!("admin.history_dir={directory}"));
        let stop_on_a_full_disk = || {
            let instance = env.start();
            let first = first_sample(&env);
            disk.fill();
            assert!(instance.terminate().success());
            disk.free();
            first
        };
        let names = || -> Vec<_> {
            let entries = fs::read_dir(disk.path()).expect("the directory");
            entries.map(|entry| entry.expect("an entry").file_name()).collect()
        };
        stop_on_a_full_disk();
        assert_eq!(names(), [""; 0], "no part of a file is left");
        let instance = env.start();
        let first = first_sample(&env);
        assert!(instance.terminate().success());
        let file = fs::read(disk.path().join(&names()[0])).expect("the history");
        assert_eq!(stop_on_a_full_disk(), first);
        assert_eq!(fs::read(disk.path().join(&names()[0])).expect("the history"), file, "the former one");
        let log = env.log();
        let warnings: Vec<_> = log.lines().filter(|line| line.contains("the history is not kept")).collect();
        let free = format!("0 of 1048576 bytes are free on the file system of {directory}/history-");
        assert!(warnings.len() == 2 && warnings.iter().all(|line| line.contains(&free)), "{log}");
        for other in ["the history begins empty", "child did not stop in time"] {
            assert!(!log.contains(other), "{log}");
        }
    });
}

/// Three instances with the same working directory and their databases in one directory stop at the same
/// time.
#[test]
fn instances_that_share_a_directory_keep_their_histories() {
    let shared = tempfile::tempdir().expect("a directory");
    let databases = shared.path().join("state");
    fs::create_dir(&databases).expect("make a directory");
    let envs = ["a", "b", "c"].map(|name| {
        let database = databases.join(name).display().to_string();
        TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set(&format!("queue.database={database}"))
    });
    let start = |env: &TestEnv| {
        let mut command = env.command();
        command.current_dir(shared.path());
        Instance::spawn(command)
    };
    let mut instances = envs.each_ref().map(start);
    let first = envs.each_ref().map(first_sample);
    instances.iter().for_each(|instance| instance.signal(Signal::TERM));
    for (env, instance) in envs.iter().zip(&mut instances) {
        assert!(instance.wait().success());
        assert!(!env.log().contains("the history is not kept"), "{}", env.log());
    }
    let mut instances = envs.each_ref().map(start);
    assert_eq!(envs.each_ref().map(first_sample), first, "each reads its own history");
    instances.iter().for_each(|instance| instance.signal(Signal::TERM));
    assert!(instances.iter_mut().all(|instance| instance.wait().success()));
}
