//! Spilled messages of an ingester: files without a name, which end with the process (ingester, CONTRACT
//! IS02). The next program begins the next mapping whole, whatever the one before had spilled.

use std::{fs, net::TcpListener, path::PathBuf, thread, time::Instant};

use orchestrator_harness::{Controller, IngesterEnv, ZmtpPeer, eventually, former_program};
use serde_json::{Value, json};

use crate::{
    RELEASE,
    installed::{Installed, Stop, assert_no_pause},
    today,
};

const MIB: usize = 1 << 20;
/// Bytes of a frame, and frames of the two mappings of each program. Those of the second one do not fit into
/// the worker's memory budget.
const FRAME: usize = 4 * MIB;
const FEW: u64 = 4;
const MANY: u64 = 24;
const KEYS: &str = "egress_bytes_per_peer = 33554432\nspill_bytes = 1073741824";

/// Sends a series of `frames` images to the next connection, until it is closed.
fn send(listener: &TcpListener, frames: u64) {
    let listener = listener.try_clone().expect("a second handle");
    thread::spawn(move || {
        let Ok(mut peer) = ZmtpPeer::accept(&listener, "PUSH") else { return };
        let start = br#"{"htype":"header","msg_number":0,"filename":""}"#.to_vec();
        let image = |frame: u64| {
            let (number, shape) = (frame + 1, [2_048, 2_048]);
            let head = json!({
                "htype": "image", "frame": frame, "shape": shape, "type": "uint8", "compression": "none",
                "msg_number": number,
            });
            vec![head.to_string().into_bytes(), vec![7; FRAME]]
        };
        let end = format!(r#"{{"htype":"series_end","msg_number":{}}}"#, frames + 1).into_bytes();
        let all = std::iter::once(vec![start]).chain((0..frames).map(image)).chain([vec![end]]);
        for parts in all {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            // The program may end meanwhile.
            if peer.send(&parts).is_err() {
                return;
            }
        }
        // Keeps the connection open until the program closes it.
        let _ = peer.receive();
    });
}

/// Names of the files that could have spilled messages.
fn large_files(env: &IngesterEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(env.base.path()).expect("the directory for spilled messages");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let large = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.len() >= FRAME as u64));
    large.map(|entry| entry.path()).collect()
}

/// Begins a mapping whose events all go to the worker.
fn begin(env: &IngesterEnv, listener: &TcpListener, mapping: &str, frames: u64) {
    send(listener, frames);
    let controller = env.controller();
    controller.start_mapping(mapping, &["eiger"]);
    let events: Vec<_> = (0..frames + 2).map(|event| (event, json!({ "eiger": ["worker"] }))).collect();
    controller.assign_events(mapping, &events);
}

fn finish(env: &IngesterEnv, mapping: &str) {
    env.controller().publish_update(&Controller::update_json(mapping, &[], true));
}

/// Runs a mapping that the worker reads, and begins one that it does not. Returns the worker and the second
/// mapping.
fn run(env: &IngesterEnv, listener: &TcpListener, number: usize) -> (ZmtpPeer, String) {
    let [read, unread] = [0, 1].map(|second| format!("{number:07x}{second}-975c-4dfe-97be-7f6d1d5a5c38"));
    begin(env, listener, &read, FEW);
    let mut worker = ZmtpPeer::connect(env.port, "DEALER", "worker").expect("the ingester listens");
    for event in 0..FEW + 2 {
        let parts = worker.receive().expect("the next event");
        let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
        assert_eq!(header["event_number"], event, "{header}");
        if (1..=FEW).contains(&event) {
            assert_eq!((parts.len(), parts[2].len()), (3, FRAME));
        }
    }
    finish(env, &read);
    eventually("the end to be answered", || env.controller().is_finished(&read));
    begin(env, listener, &unread, MANY);
    eventually("messages on the disk", || env.metric("egress", "spilled_bytes") > 0);
    assert_eq!(large_files(env), Vec::<PathBuf>::new(), "files with names");
    (worker, unread)
}

fn there_and_back(stop: Stop) {
    let former = former_program(RELEASE);
    let program = Installed::new(&former);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
    let env = IngesterEnv::new(program.path(), &upstream, KEYS);
    let mut instance = env.start();
    let mut unread = run(&env, &listener, 0);
    for (number, next) in [today(), &former, today()].into_iter().enumerate() {
        stop.end(instance, &env.base);
        assert_eq!(large_files(&env), Vec::<PathBuf>::new(), "files that are left");
        // A controller whose ingester is gone ends the scan.
        finish(&env, &unread.1);
        program.replace(next);
        let started = Instant::now();
        instance = env.start();
        assert_no_pause(next, started);
        unread = run(&env, &listener, number + 1);
    }
    stop.end(instance, &env.base);
}

#[test]
fn stops_between_0_2_0_and_today_begin_the_next_mapping_whole_and_leave_no_spilled_file() {
    there_and_back(Stop::Signal);
}

#[test]
fn kills_between_0_2_0_and_today_begin_the_next_mapping_whole_and_leave_no_spilled_file() {
    there_and_back(Stop::Kill);
}
