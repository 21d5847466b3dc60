//! Clients that send many HTTP requests at once: a connection serves one, and the others take no memory.

use std::time::{Duration, Instant};

use orchestrator_harness::{TestEnv, eventually};

use crate::{
    behaviour::Behaviour,
    cell,
    client::Endpoint,
    edge::{Build, Plan, Side},
    edges,
    wire::Wire,
};

/// Concurrent connections, and requests on each, bytes.
const CLIENTS: usize = 64;
const PIPELINED: usize = 64 << 10;
/// Limit of the growth of the RSS, bytes.
const GROWTH_MAX: u64 = 8 << 20;
const DEADLINE: Duration = Duration::from_secs(30);

const FILE_OF_THE_PAGE: &str = "GET /ui/base.css HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn admin_tcp() {
    check(edges::admin::tcp, FILE_OF_THE_PAGE);
}

#[test]
fn admin_unix() {
    check(edges::admin::unix, FILE_OF_THE_PAGE);
}

#[test]
fn sardana() {
    check(edges::ingester::sardana, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

fn check(build: Build, request: &str) {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let directory = env.path().to_owned();
    let mut edge =
        build(&Plan { edge: "pipelined", behaviour: Behaviour::Floods, is_again: false, directory });
    let instance = cell::start(&env, &edge.sections());
    eventually("work to come through the edge", || {
        edge.feed(&env);
        edge.done(&env) > 0
    });
    let Side::Clients(endpoint) = edge.side() else { panic!("the edge has no clients") };
    let endpoint = endpoint(&env);
    send(&endpoint, request.as_bytes(), || ());
    cell::reset_peak(&instance);
    let steady = instance.memory("VmRSS");
    for round in 1..=2 {
        let pipelined = request.repeat(PIPELINED / request.len());
        send(&endpoint, pipelined.as_bytes(), || {
            let grown = instance.memory("VmHWM").saturating_sub(steady);
            eprintln!("round {round}: RSS +{} KiB", grown >> 10);
            assert!(grown <= GROWTH_MAX, "the RSS grew by {} MiB", grown >> 20);
        });
    }
}

/// Sends `bytes` over each of many connections, calls `check` once all have an answer, and checks that it is
/// the only one.
fn send(endpoint: &Endpoint, bytes: &[u8], check: impl FnOnce()) {
    let until = Instant::now() + DEADLINE;
    let connect = |_| Wire::new(endpoint.connect().expect("a connection"), until).expect("a socket");
    let mut clients: Vec<Wire> = (0..CLIENTS).map(connect).collect();
    for client in &mut clients {
        // The server may have answered and closed the connection.
        let _ = client.write(bytes);
    }
    let mut answers: Vec<_> =
        clients.iter_mut().map(|client| client.read_exact(1).expect("an answer")).collect();
    check();
    for (client, answer) in clients.iter_mut().zip(&mut answers) {
        while let Ok(more) = client.read() {
            answer.extend(more);
        }
        let answer = String::from_utf8_lossy(answer);
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
}
