//! The workers' port: invalid connections neither end the process nor block workers.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};

use orchestrator_harness::{IngesterEnv, ZmtpPeer, eventually, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
/// More connections than the process accepts.
const CONNECTIONS: usize = 10_000;

fn env(upstream: &TcpListener) -> IngesterEnv {
    let address = upstream.local_addr().expect("its address");
    IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &format!("tcp://{address}"), "")
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

/// Opens a connection that stops at one of five points of the handshake.
fn open_invalid_connection(port: u16, number: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    let begin: &[u8] = match number % 5 {
        0 => b"",
        1 => &greeting[..20],
        2 => &greeting,
        3 => b"GET / HTTP/1.1\r\n\r\n",
        // A greeting, and a frame of 2^40 bytes.
        _ => &[&greeting[..], &[2, 0, 0, 1, 0, 0, 0, 0, 0]].concat(),
    };
    // The ingester may have closed it already.
    let _ = stream.write_all(begin);
    Some(stream)
}

#[test]
fn ten_thousand_invalid_connections_do_not_block_workers() {
    let mut limit: Rlimit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the hard limit");
    let upstream = listener();
    let env = env(&upstream);
    let instance = env.start();
    let before = instance.memory("VmRSS");
    let mut connections: Vec<_> =
        (0..CONNECTIONS).filter_map(|number| open_invalid_connection(env.port, number)).collect();
    // A registered worker announces a frame of 2^40 bytes.
    let mut liar = ZmtpPeer::connect(env.port, "DEALER", "liar").expect("it listens");
    liar.send_raw(&[2, 0, 0, 1, 0, 0, 0, 0, 0]).expect("it is read");
    eventually("it to be disconnected", || liar.receive().is_err());

    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    let mut source = ZmtpPeer::accept(&upstream, "PUSH").expect("the ingester connects");
    source.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]).expect("it takes it");
    controller.assign_events(MAPPING, &[(0, json!({"eiger": ["w1"]}))]);
    let mut worker = wait_for("a connection", || ZmtpPeer::connect(env.port, "DEALER", "w1").ok());
    let parts = worker.receive().expect("the event");
    assert!(parts[0].starts_with(br#"{"event_number":0,"#));

    connections.clear();
    drop(liar);
    eventually("only the worker is left", || env.metric("egress", "connections") == 1);
    let grown = instance.memory("VmRSS").saturating_sub(before) >> 20;
    assert!(grown < 100, "{grown} MiB are left after the flood");
}
