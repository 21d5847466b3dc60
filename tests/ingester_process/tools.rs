//! `orchestrator ingester probe` and `play`, which need no running instance.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Controller, IngesterEnv,
    dranspose::{Source, SourceMessage, item, run_program, series},
    eventually,
};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

/// Starts `orchestrator ingester ARGUMENTS` without Redis or an instance.
fn tool(arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("ingester").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

/// Waits for a tool and returns its output.
fn output(tool: Child) -> String {
    let output = tool.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Message of an electrometer.
fn albaem(kind: &str, number: u64) -> SourceMessage {
    item(&json!({
        "message_type": kind, "message_id": number, "version": 1, "frame_number": number,
        "timestamp": 1.5, "acquisition_timestamp": 7, "note": "\u{1b}[31m",
    }))
}

/// A publisher (libzmq) with a gap, an invalid message, and one outside of the series.
#[test]
fn a_probe_counts_the_messages_of_a_publisher() {
    let mut source = Source::publish();
    let probing = tool(&[
        "probe",
        "--source",
        "albaem",
        &source.url(),
        "--seconds",
        "60",
        "--messages",
        "11",
        "--json",
    ]);
    source.await_subscriptions(1);
    let mut messages = vec![albaem("data", 7), albaem("series-start", 0)];
    messages.extend([0, 1, 2, 5, 6, 7].map(|number| albaem("data", number).noise(1_000, number)));
    messages.extend([item(&json!({"message_type": "data"})), albaem("series-end", 8), albaem("data", 9)]);
    let sent = source.send(&messages);
    let figures: Value = serde_json::from_str(&output(probing)).expect("JSON");
    let bytes: u64 = sent
        .iter()
        .flat_map(|parts| parts.as_array().expect("parts"))
        .filter_map(|part| part[0].as_u64())
        .sum();
    for (key, value) in [
        ("messages", json!(11)),
        ("bytes", json!(bytes)),
        ("items", json!(8)),
        ("outside_series", json!(2)),
        ("invalid", json!(1)),
        ("gaps", json!(1)),
        ("missing_frames", json!(2)),
        ("parts_max", json!(2)),
        ("takes_frames_away", json!(false)),
        ("socket", json!("SUB")),
        ("reconnects", json!(0)),
    ] {
        assert_eq!(figures[key], value, "{key} of {figures}");
    }
    assert!(figures["messages_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{figures}");
    assert_eq!(figures["header"]["frame_number"], 7);
}

/// A PUSH source loses to the probe what it reads: that is said before anything is read.
#[test]
fn a_probe_of_a_pushing_source_warns() {
    let mut source = Source::push();
    let probing = tool(&["probe", "--source", "stins", &source.url(), "--seconds", "60", "--messages", "12"]);
    source.send(&series("probed", 10, 2_000));
    let text = output(probing);
    assert!(text.starts_with("warning: the source pushes each message to one receiver"), "{text}");
    assert!(text.contains("12 items, 2 of them without a number"), "{text}");
    assert!(text.contains("\"filename\": \"probed\"") && !text.contains('\u{1b}'), "{text}");
}

/// The first message of DECTRIS's Stream V2 has tags, arrays and maps.
#[test]
fn a_probe_decodes_cbor() {
    let (mut source, directory) = (Source::push(), tempfile::tempdir().expect("a directory"));
    let file = directory.path().join("eiger_v2");
    run_program("captures.py", &["eiger_v2", &file.display().to_string()]);
    let address = source.url();
    let arguments =
        ["probe", "--source", "eiger_v2", &address, "--seconds", "60", "--messages", "10", "--json"];
    let probing = tool(&arguments);
    source.play(&file);
    let figures: Value = serde_json::from_str(&output(probing)).expect("JSON");
    assert_eq!((&figures["items"], &figures["unnumbered_items"]), (&json!(10), &json!(2)), "{figures}");
    let header = &figures["header"];
    assert_eq!((&header["type"], &header["series_id"]), (&json!("start"), &json!(66)));
    assert_eq!(header["arm_date"], "2024-02-19T14:33:41Z");
    let mask = json!({"tag 40": [[514, 1030], {"tag 70": format!("{} bytes", 514 * 1030 * 4)}]});
    assert_eq!(header["pixel_mask"]["threshold_1"], mask);
}

#[test]
fn a_probe_without_a_source_says_why() {
    let port = orchestrator_harness::free_port();
    for (source, address, reason) in [
        ("stins", format!("tcp://127.0.0.1:{port}"), "cannot be reached"),
        ("pandabox", format!("tcp://127.0.0.1:{port}"), "use one of stins"),
        ("stins", "127.0.0.1".to_owned(), "write tcp://host:port"),
    ] {
        let probing = tool(&["probe", "--source", source, &address, "--seconds", "1"]);
        let output = probing.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(reason), "{text}");
    }
}

/// Starts a source that pushes `bytes` after its handshake, again and again.
fn hostile_source(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let mut opening = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x00NULL".to_vec();
    opening.resize(64, 0);
    opening.extend(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PUSH");
    // The thread ends with the test process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let many = bytes.repeat((1 << 20) / bytes.len() + 1);
            let _ = stream.write_all(&opening);
            while stream.write_all(&many).is_ok() {}
        }
    });
    address
}

/// A frame that announces 4 EiB, a message without end, and messages without pause.
#[test]
fn a_probe_of_a_hostile_source_ends_in_time_with_bounded_memory() {
    for (bytes, may_fail) in
        [(&b"\x02\x40\0\0\0\0\0\0\0"[..], true), (&b"\x01\x03abc"[..], true), (&b"\0\x03abc"[..], false)]
    {
        let began = Instant::now();
        let address = hostile_source(bytes);
        let mut probing = tool(&["probe", "--source", "stins", &address, "--seconds", "3"]);
        let mut peak = 0;
        while probing.try_wait().expect("a child").is_none() {
            let status = fs::read_to_string(format!("/proc/{}/status", probing.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(peak);
            assert!(began.elapsed() < Duration::from_secs(20), "{bytes:?}: the probe does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = probing.wait_with_output().expect("it has ended");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code().is_some_and(|code| code == 0 || may_fail),
            "{bytes:?}: {}: {text}",
            output.status
        );
        assert!(!text.contains("panicked"), "{text}");
        assert!(peak < 200 << 10, "{bytes:?}: {peak} KiB");
    }
}

/// Scan of an ingester that dumps `events` events of the source at `upstream` into `dump`.
fn dump(upstream: &str, dump: &Path, events: u64) {
    let env = IngesterEnv::new(BINARY, upstream, &format!("dump_path = \"{}\"", dump.display()));
    let instance = env.start();
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    let assigned: Vec<(u64, Value)> = (0..events).map(|event| (event, json!({ "eiger": [] }))).collect();
    controller.assign_events(MAPPING, &assigned);
    eventually("all items to arrive", || env.metric("scan/stream_0", "items") == events as i64);
    controller.publish_update(&Controller::update_json(MAPPING, &[], true));
    eventually("the end to be answered", || controller.is_finished(MAPPING));
    assert!(instance.terminate().success());
}

/// A process that is killed while it writes leaves an event in part. Events behind it could not be read.
#[test]
fn a_partly_written_event_is_removed_before_the_next_scan_is_dumped() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scan.cbors");
    for scan in ["killed", "next"] {
        let mut source = Source::push();
        let url = source.url();
        source.start_send(&series(scan, 40, 70_000));
        dump(&url, &file, 42);
        source.wait_sent();
        if scan == "killed" {
            let dumped = fs::File::options().write(true).open(&file).expect("the dump");
            dumped.set_len(dumped.metadata().expect("its length").len() - 20).expect("it is cut");
        }
    }
    let file = file.display().to_string();
    let read: Vec<Value> = serde_json::from_str(&run_program("dumped.py", &[&file])).expect("JSON");
    assert_eq!(read[0].as_array().map(Vec::len), Some(41 + 42));
}

/// A dump that is played into an ingester is dumped with the same items.
#[test]
fn a_played_dump_arrives_unchanged() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, second) = (directory.path().join("first.cbors"), directory.path().join("second.cbors"));
    let mut source = Source::push();
    let url = source.url();
    source.start_send(&series("played", 40, 70_000));
    dump(&url, &first, 42);
    source.wait_sent();
    for pace in ["full", "recorded", "500/s"] {
        let file = first.display().to_string();
        let mut playing = tool(&["play", &file, "--to", "tcp://127.0.0.1:0", "--pace", pace]);
        let mut lines = BufReader::new(playing.stdout.take().expect("piped")).lines();
        let begun = lines.next().expect("a line").expect("UTF-8");
        let address =
            begun.strip_prefix("PUSH at ").and_then(|rest| rest.split(": ").next()).expect("an address");
        let _ = fs::remove_file(&second);
        dump(address, &second, 42);
        let end = lines.next().expect("a line").expect("UTF-8");
        assert!(end.starts_with("42 messages, "), "{end}");
        assert!(playing.wait().expect("it ends").success());
        let files = [&first, &second].map(|file| file.display().to_string());
        let read = run_program("dumped.py", &[&files[0], &files[1]]);
        let read: Vec<Value> = serde_json::from_str(&read).expect("JSON");
        assert_eq!(read[0].as_array().map(Vec::len), Some(42));
        assert!(read[0] == read[1], "pace {pace}: the dumps differ");
    }
}
