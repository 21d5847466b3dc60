//! The socket's file, and the end of the service.

use std::{fs, os::unix::net::UnixListener};

use orchestrator_queue::messages::StoreRequest;
use orchestrator_supervise::{Origin, Received, StopToken, Verb};

use super::house::{House, Store, eventually, service};

#[test]
fn r50_only_our_own_socket_is_removed() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("worker.sock");
    let (house, _requests) = House::at(&path, service());
    let _connected = house.connect();
    fs::remove_file(&path).expect("remove");
    let _other = UnixListener::bind(&path).expect("another's socket");
    house.stop();
    assert!(path.exists());
}

#[test]
fn r50_a_stop_lets_the_request_in_work_end() {
    let (mut house, mut requests) = House::with_inbox(service());
    let mut worker = house.connect();
    let mut idle = house.connect();
    worker.send("READY\nREADY\n");
    let Received::Item(StoreRequest::Ready { reply }) = requests.recv_blocking(&StopToken::new(), None)
    else {
        panic!("no request")
    };
    house.begin_stop();
    assert_eq!(idle.rest(), "", "idle connections are closed at once");
    reply.send(None).expect("the connection waits");
    assert_eq!(worker.rest(), "NOJOBS\n", "and no further request is taken");
    house.stop();
}

#[test]
fn paused_it_takes_no_request_and_resumed_it_takes_all() {
    let store = Store::with_jobs(&[("alpha", "0 1")]);
    let house = House::with_store(service(), &store);
    let mut worker = house.connect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let origin = Origin { by: "test".into(), reason: "a pause".into() };
    let command =
        |verb| runtime.block_on(house.tree.command("test/worker_socket", verb, &origin)).expect("obeyed");
    command(Verb::Pause);
    worker.send("READY\n");
    eventually("the worker is connected", || (house.figure("connections") == 1).then_some(()));
    assert_eq!(store.log(), Vec::<String>::new());
    command(Verb::Resume);
    assert_eq!(worker.line(), "JOB alpha 0 1");
}
