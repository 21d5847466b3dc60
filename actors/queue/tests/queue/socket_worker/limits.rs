//! More clients than descriptors, and clients that take all they can.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use orchestrator_queue::{edge::worker_socket::Service, messages::StoreRequest, storage::Job};
use orchestrator_supervise::reply;
use orchestrator_supervise::{Received, StopToken};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::house::{Client, DEADLINE, House, Store, eventually, service};

#[test]
fn r29_the_connection_idle_longest_makes_room() {
    let jobs: Vec<(String, String)> = (0..100).map(|n| (format!("a{n}"), "1".to_owned())).collect();
    let store = Store::with_jobs(&jobs.iter().map(|(a, p)| (a.as_str(), p.as_str())).collect::<Vec<_>>());
    let house = House::with_store(Service { connections_max: Some(4), ..service() }, &store);
    let mut workers: Vec<_> = (0..4).map(|_| house.connect()).collect();
    for (n, worker) in workers.iter_mut().enumerate() {
        assert_eq!(worker.send("READY\n").line(), format!("JOB a{n} 1"));
    }
    assert_eq!(workers[0].send("DONE a0 0\n").line(), "JOB a4 1", "worker 1 is now the one idle longest");
    assert_eq!(house.connect().send("READY\n").line(), "JOB a5 1");
    assert_eq!(workers[1].rest(), "");
    for n in [0, 2, 3] {
        assert!(workers[n].send("READY\n").line().starts_with("JOB"), "worker {n} stays");
    }
    assert_eq!(house.figure("connections_evicted"), 1);
}

/// Not a test of its own: the server process of the next one, whose descriptors are limited.
#[test]
fn r29_server() {
    let Ok(path) = std::env::var("R29_SOCKET") else { return };
    let connections = std::env::var("R29_CONNECTIONS").ok();
    let connections_max = connections.map(|connections| connections.parse().expect("number"));
    let service = Service { connections_max, ..Service::default() };
    let (_house, requests) = House::at(Path::new(&path), service);
    Store::with_jobs(&[("alpha", "0 1")]).serve(requests);
    writeln!(std::io::stdout(), "serving").expect("the test listens");
    let _ = std::io::stdin().read_line(&mut String::new());
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn r29_accepting_goes_on_when_the_descriptors_are_used_up() {
    crowd(Some("100000"));
}

/// 1200 idle clients, then a worker; with a limit on connections of its own, or the one derived from the descriptors.
fn crowd(connections_max: Option<&str>) {
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own })
        .expect("the soft limit can be raised");
    assert!(own.maximum.is_none_or(|most| most > 1300), "this test needs 1300 descriptors: raise ulimit -Hn");
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("worker.sock");
    let mut server = Command::new("sh")
        .args([
            "-c",
            "ulimit -S -n 256; ulimit -H -n 1024; exec \"$0\" --exact socket_worker::limits::r29_server --nocapture",
        ])
        .arg(std::env::current_exe().expect("own path"))
        .env("R29_SOCKET", &path)
        .envs(connections_max.map(|connections| ("R29_CONNECTIONS", connections)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Server)
        .expect("server");
    let mut said = BufReader::new(server.0.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("read"), 0, "the server ended");
    }
    let idle: Vec<UnixStream> =
        (0..1200).map(|_| eventually("the socket is there", || UnixStream::connect(&path).ok())).collect();
    let mut worker = Client::from(UnixStream::connect(&path).expect("connect"));
    assert_eq!(worker.send("READY\n").line(), "JOB alpha 0 1");
    let mut youngest = Client::from(idle.into_iter().next_back().expect("1200 clients"));
    assert_eq!(youngest.send("READY\n").line(), "NOJOBS", "the youngest of the idle ones is still served");
    drop(server);
}

/// However much a connection has sent, one request of it is in work at a time, and it keeps no other's from the store.
#[test]
fn each_connection_has_one_request_in_work() {
    const REQUESTS: usize = 50;
    let (house, mut requests) = House::with_inbox(service());
    let mut next = || match requests.recv_blocking(&StopToken::new(), Some(Instant::now() + DEADLINE)) {
        Received::Item(StoreRequest::Ready { reply }) => ("READY", reply),
        Received::Item(StoreRequest::Done { reply, .. }) => ("DONE", reply),
        _ => panic!("no request"),
    };
    let mut flood = house.connect();
    flood.send("READY\n".repeat(REQUESTS));
    let (of_flood, mut flood_waits) = next();
    assert_eq!(of_flood, "READY");
    let mut other = house.connect();
    other.send("DONE alpha 0\n".repeat(REQUESTS));
    let (of_other, mut other_waits) = next();
    assert_eq!(of_other, "DONE", "the flood had its turn and waits for its answer");
    for _ in 1..REQUESTS {
        for (who, waits) in [("READY", &mut flood_waits), ("DONE", &mut other_waits)] {
            let (nobody, _) = reply::<Option<Job>>();
            std::mem::replace(waits, nobody).send(None).expect("its connection waits");
            let (asks, reply) = next();
            assert_eq!(asks, who, "only who was answered asks again");
            *waits = reply;
        }
    }
}
