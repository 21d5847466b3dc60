//! A disk that is slower than the scan (`dump_overflow`), and the lines of `LOG_LEVEL=DEBUG`. A named pipe
//! stands for the disk.

use std::{
    fs::{self, File},
    io,
    path::Path,
    thread,
};

use orchestrator_harness::{
    Controller, IngesterEnv,
    dranspose::{Source, run_program, series},
    eventually,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
/// Frames of 2 MiB: more than may wait for the disk. A series has a start and an end beside them.
const FRAMES: u64 = 40;
const EVENTS: u64 = FRAMES + 2;

fn assign(env: &IngesterEnv, events: u64) {
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    let assigned: Vec<(u64, Value)> = (0..events).map(|event| (event, json!({ "eiger": [] }))).collect();
    controller.assign_events(MAPPING, &assigned);
}

fn finish(env: &IngesterEnv) {
    let controller = env.controller();
    controller.publish_update(&Controller::update_json(MAPPING, &[], true));
    eventually("the end to be answered", || controller.is_finished(MAPPING));
}

/// Number of events that a scan dumped into a pipe which is read once `is_reached` holds.
fn dumped(overflow: &str, is_reached: impl Fn(&IngesterEnv) -> bool) -> (usize, i64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (pipe, copy) = (directory.path().join("pipe"), directory.path().join("copy.cbors"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let mut source = Source::push();
    let env = IngesterEnv::new(
        BINARY,
        &source.url(),
        &format!("dump_path = {:?}\ndump_overflow = {overflow:?}", pipe.display().to_string()),
    );
    let instance = env.start();
    source.start_send(&series("slow", FRAMES as usize, 2 << 20));
    assign(&env, EVENTS);
    eventually("the dump to be full", || is_reached(&env));
    let target = copy.clone();
    let reader = thread::spawn(move || {
        let (mut from, mut to) = (File::open(pipe).expect("the pipe"), File::create(target).expect("a file"));
        io::copy(&mut from, &mut to).expect("a copy")
    });
    eventually("all events to be sent", || env.metric("scan/work", "events") == EVENTS as i64);
    source.wait_sent();
    finish(&env);
    let left_out = env.metric("scan/work", "events_not_dumped");
    assert!(instance.terminate().success());
    reader.join().expect("the end of the pipe");
    (events_of(&copy), left_out)
}

fn events_of(file: &Path) -> usize {
    let read = run_program("dumped.py", &[&file.display().to_string()]);
    let read: Vec<Value> = serde_json::from_str(&read).expect("JSON");
    read[0].as_array().map_or(0, Vec::len)
}

#[test]
fn a_slow_disk_delays_the_scan_and_the_dump_is_whole() {
    // 64 MiB are 31 frames; the next event waits.
    let is_full = |env: &IngesterEnv| env.metric("scan/work", "events") >= 31;
    assert_eq!(dumped("block", is_full), (EVENTS as usize, 0));
}

#[test]
fn a_slow_disk_leaves_events_out_and_the_scan_continues() {
    let is_sent = |env: &IngesterEnv| env.metric("scan/work", "events") == EVENTS as i64;
    let (dumped, left_out) = dumped("omit", is_sent);
    assert!(left_out > 0 && dumped + left_out as usize == EVENTS as usize, "{dumped} and {left_out}");
}

/// A disk error is no slow disk: the scan continues, whatever `dump_overflow` says.
#[test]
fn debug_lines_have_ids_and_a_limit_and_a_disk_error_delays_nothing() {
    let mut source = Source::push();
    let env = IngesterEnv::new(BINARY, &source.url(), "dump_path = \"/dev/full\"\ndump_overflow = \"block\"");
    env.append("[telemetry]\nfilter = \"debug\"\n");
    let instance = env.start();
    source.start_send(&series("debug", 298, 100));
    assign(&env, 300);
    eventually("all events to be sent", || env.metric("scan/work", "events") == 300);
    source.wait_sent();
    finish(&env);
    assert!(env.metric("dump", "dump_errors") > 0);
    assert!(instance.terminate().success());
    let log = fs::read_to_string(env.base.log_path()).expect("the log");
    let lines =
        |text: &str| log.lines().filter(|line| line.contains(text) && !line.contains("suppressed")).count();
    assert_eq!(lines("an event is assigned"), 100, "{log}");
    assert!(log.lines().any(|line| line.contains("an event is assigned") && line.contains(MAPPING)), "{log}");
    assert_eq!(lines("a series of the source starts or ends"), 2);
    let end = log.lines().find(|line| line.contains("the scan has ended")).expect("the end");
    assert!(end.contains(MAPPING) && end.contains("300"), "{end}");
    assert!(log.contains("more than 100 of one kind"), "{log}");
}
