//! A worker that does not read: its queue stays within its memory budget, the rest is spilled to disk, and
//! other workers keep their rate. When the spill space is used up, all workers slow down and nothing is lost.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

use orchestrator_harness::{IngesterEnv, ZmtpPeer, eventually, http};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 32 * MIB;
const SPILL: u64 = 96 * MIB;
/// Memory limit beyond the budget.
const REST: u64 = 100 * MIB;
const FRAME: usize = 4 << 20;
const WORKERS: [&str; 3] = ["slow", "w1", "w2"];
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

/// Sends a series of `frames` images as fast as they are taken.
fn source(listener: TcpListener, frames: u64) {
    let mut peer = ZmtpPeer::accept(&listener, "PUSH").expect("the ingester connects");
    let mut send = |parts: &[&[u8]]| peer.send(parts).expect("the ingester takes it");
    send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]);
    let mut pixels = vec![7; FRAME];
    for frame in 0..frames {
        pixels[..8].copy_from_slice(&frame.to_be_bytes());
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[2048,2048],"type":"uint8","compression":"none","msg_number":{}}}"#,
            frame + 1
        );
        send(&[head.as_bytes(), &pixels]);
    }
    send(&[format!(r#"{{"htype":"series_end","msg_number":{}}}"#, frames + 1).as_bytes()]);
    // Keeps the connection open until the ingester ends.
    let _ = peer.receive();
}

/// Receives the events of `worker`, counts them, and checks that they are complete and in order.
fn take(mut peer: ZmtpPeer, worker: usize, frames: u64, taken: &AtomicU64) {
    // Start and end go to all workers, each frame to one of the three.
    let mine = (0..frames).filter(|frame| frame % 3 == worker as u64).map(|frame| frame + 1);
    for event in std::iter::once(0).chain(mine).chain([frames + 1]) {
        let parts = peer.receive().expect("the next event");
        let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
        assert_eq!(header["event_number"], event, "{}", WORKERS[worker]);
        if (1..=frames).contains(&event) {
            assert_eq!((parts.len(), parts[2].len()), (3, FRAME));
            assert_eq!(parts[2][..8], (event - 1).to_be_bytes());
        }
        taken.fetch_add(1, SeqCst);
    }
}

fn assignments(frames: u64) -> Vec<(u64, Value)> {
    let all = |event| (event, json!({ "eiger": WORKERS }));
    let one = |frame: u64| (frame + 1, json!({ "eiger": [WORKERS[(frame % 3) as usize]] }));
    std::iter::once(all(0)).chain((0..frames).map(one)).chain([all(frames + 1)]).collect()
}

/// Number of messages in the histogram of the forwarding time.
fn forwarded(env: &IngesterEnv, via: &str) -> u64 {
    let metrics = http(&env.base.admin_socket(), "GET", "/metrics", &[], "").body;
    let count = metrics.lines().find(|line| {
        line.starts_with("orchestrator_ingester_forwarding_seconds_count")
            && line.contains(&format!("via=\"{via}\""))
    });
    count.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a count")
}

/// Runs a scan of `frames` images and calls `meanwhile` while the first worker does not read.
fn scan(frames: u64, meanwhile: impl FnOnce(&IngesterEnv, &[Arc<AtomicU64>])) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
    let keys = format!("egress_bytes_per_peer = {BUDGET}\nspill_bytes = {SPILL}");
    let env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &upstream, &keys);
    let instance = env.start();
    let sending = thread::spawn(move || source(listener, frames));
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    controller.assign_events(MAPPING, &assignments(frames));
    let dial = |name: &str| ZmtpPeer::connect(env.port, "DEALER", name).expect("the ingester listens");
    let mut peers: Vec<_> = WORKERS.iter().map(|name| dial(name)).enumerate().collect();
    let taken: Vec<Arc<AtomicU64>> = WORKERS.iter().map(|_| Arc::default()).collect();
    let mut taking: Vec<thread::JoinHandle<()>> = Vec::new();
    let begin = |(worker, peer): (usize, ZmtpPeer)| {
        let taken = taken[worker].clone();
        thread::spawn(move || take(peer, worker, frames, &taken))
    };
    taking.extend(peers.drain(1..).map(begin));
    meanwhile(&env, &taken);
    assert_eq!(taken[0].load(SeqCst), 0);
    let used = instance.memory("VmHWM");
    assert!(used <= BUDGET + REST, "{} MiB at most in memory", used / MIB);
    taking.extend(peers.drain(..).map(begin));
    taking.into_iter().for_each(|one| one.join().expect("every event, in order"));
    let [memory, disk] = ["memory", "disk"].map(|via| forwarded(&env, via));
    assert!(disk > 0, "no message was on disk");
    assert_eq!(memory + disk, frames + 2 * WORKERS.len() as u64, "each message is measured once");
    drop(instance);
    sending.join().expect("the source sent everything");
}

/// The slow worker's 88 MiB exceed its budget and fit the spill space.
#[test]
fn other_workers_keep_their_rate_while_spill_space_is_left() {
    scan(66, |env, taken| {
        eventually("the others have all of theirs", || {
            taken[1..].iter().all(|taken| taken.load(SeqCst) == 24)
        });
        assert_eq!(env.metric("scan/work", "blocked_by_worker"), 0);
        // The metric is updated twice a second.
        eventually("the rest of the slow one's waits on disk", || env.metric("egress", "spilled_bytes") > 0);
    });
}

/// The slow worker's 320 MiB exceed budget and spill space.
#[test]
fn a_full_spill_slows_all_workers_and_loses_nothing() {
    scan(240, |env, taken| {
        eventually("all are held up", || env.metric("scan/work", "blocked_by_worker") == 1);
        let others = || taken[1..].iter().map(|taken| taken.load(SeqCst)).collect::<Vec<_>>();
        assert!(others().iter().all(|taken| *taken < 82), "{:?} of 82 while one cannot go on", others());
    });
}
