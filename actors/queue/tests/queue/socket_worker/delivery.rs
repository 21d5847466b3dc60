//! A job whose reply does not arrive goes back.

use std::time::{Duration, Instant};

use orchestrator_queue::{
    edge::worker_socket::Service,
    messages::StoreRequest,
    storage::{HandoutId, Job},
};
use orchestrator_supervise::Reply;
use orchestrator_supervise::{Inbox, Origin, Received, StopToken, Verb};

use super::house::{DEADLINE, House, Store, eventually, service};

type JobReply = Reply<Option<Job>>;

fn next(requests: &mut Inbox<StoreRequest>) -> StoreRequest {
    match requests.recv_blocking(&StopToken::new(), Some(Instant::now() + DEADLINE)) {
        Received::Item(request) => request,
        other => panic!("no request: {other:?}"),
    }
}

fn next_reply(requests: &mut Inbox<StoreRequest>) -> JobReply {
    match next(requests) {
        StoreRequest::Ready { reply } | StoreRequest::Done { reply, .. } => reply,
        other => panic!("not a request of a worker: {other:?}"),
    }
}

fn job(payload: &str) -> Job {
    Job { attr_path: "alpha".into(), payload: payload.into(), handout: HandoutId(7) }
}

#[test]
fn r27_a_peer_gone_before_the_reply_gets_its_job_undone() {
    let (house, mut requests) = House::with_inbox(service());
    let mut worker = house.connect();
    worker.send("READY\n");
    let reply = next_reply(&mut requests);
    drop(worker);
    reply.send(Some(job("0 1"))).expect("the connection waits");
    assert!(matches!(next(&mut requests), StoreRequest::Undo(HandoutId(7))));
}

#[test]
fn r27_a_peer_that_closes_with_its_reply_unread_is_told_to_the_store() {
    let (house, mut requests) = House::with_inbox(service());
    let mut worker = house.connect();
    worker.send("READY\n");
    next_reply(&mut requests).send(Some(job("0 1"))).expect("the connection waits");
    assert!(matches!(next(&mut requests), StoreRequest::Delivered(HandoutId(7))));
    drop(worker);
    assert!(matches!(next(&mut requests), StoreRequest::Undo(HandoutId(7))));
}

#[test]
fn a_peer_that_never_reads_loses_its_job_and_its_connection() {
    let (house, mut requests) =
        House::with_inbox(Service { write_stall: Duration::from_millis(50), ..service() });
    let mut worker = house.connect();
    worker.send("READY\n");
    next_reply(&mut requests).send(Some(job(&"x".repeat(8 << 20)))).expect("the connection waits");
    assert!(matches!(next(&mut requests), StoreRequest::Undo(HandoutId(7))));
    assert!(worker.rest().len() < 8 << 20);
    assert_eq!(house.figure("replies_undelivered"), 1);
}

#[test]
fn a_huge_payload_arrives_whole() {
    let payload = "x".repeat(8 << 20);
    let store = Store::with_jobs(&[("alpha", &payload), ("bravo", "1")]);
    let house = House::with_store(service(), &store);
    let mut worker = house.connect();
    assert_eq!(worker.send("READY\nREADY\n").line(), format!("JOB alpha {payload}"));
    assert_eq!(worker.line(), "JOB bravo 1");
}

#[test]
fn a_store_that_gives_up_closes_the_connection_without_reply() {
    let (house, mut requests) = House::with_inbox(service());
    let mut worker = house.connect();
    worker.send("READY\n");
    drop(next_reply(&mut requests));
    assert_eq!(worker.rest(), "");
}

#[test]
fn a_restart_of_the_socket_with_a_reply_on_its_way_loses_no_job() {
    let (house, mut requests) =
        House::with_inbox(Service { write_stall: Duration::from_secs(3600), ..service() });
    let mut worker = house.connect();
    worker.send("READY\n");
    next_reply(&mut requests).send(Some(job(&"x".repeat(8 << 20)))).expect("the connection waits");
    // The reply is stuck half way, and the restart's deadline drops the connection.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let origin = Origin { by: "test".into(), reason: "a restart in the middle".into() };
    runtime.block_on(house.tree.command("test/worker_socket", Verb::Restart, &origin)).expect("restarted");
    assert!(matches!(next(&mut requests), StoreRequest::Undo(HandoutId(7))));
    eventually("it serves again", || house.path.exists().then_some(()));
    let mut worker = house.connect();
    worker.send("READY\n");
    next_reply(&mut requests).send(None).expect("the connection waits");
    assert_eq!(worker.line(), "NOJOBS");
}
