//! Brokers that fail, and queues that disappear.

use orchestrator_observe::LinkStatus;
use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::Rabbit;

use super::fixture::*;

#[test]
fn a_deleted_queue_is_declared_again() {
    let url = rabbit().create_vhost("deleting");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |tree| {
        let publisher = Publisher::at(&url).await;
        for round in 1..=2 {
            let before = wait_until_up(&mut notices).await;
            // Only an administrator can delete an exclusive queue.
            let delete = "[rabbit_amqqueue:delete(Q, false, false, <<\"test\">>) || Q <- rabbit_amqqueue:list(<<\"deleting\">>)]";
            rabbit().eval(delete);
            wait_for_count(&mut notices, before + 1).await;
            assert_eq!(metric(&tree, "bindings"), round + 1);
            publisher.publish().await;
            wait_for_count(&mut notices, before + 2).await;
        }
    });
}

#[test]
fn a_closed_connection_is_opened_again() {
    let url = rabbit().create_vhost("closing");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |tree| {
        let before = wait_until_up(&mut notices).await;
        rabbit().ctl(&["close_all_connections", "--vhost", "closing", "test"]);
        wait_for_count(&mut notices, before + 1).await;
        assert_eq!(metric(&tree, "bindings"), 2);
    });
}

#[test]
fn a_restarted_broker_is_consumed_within_ten_seconds() {
    let mut rabbit = Rabbit::start();
    let (mut notices, spec) = at(&rabbit.url());
    TestTree::run(spec, async |tree| {
        let before = wait_until_up(&mut notices).await;
        rabbit.kill_nine();
        let mut state = notices.mark_seen();
        while state.is_up {
            state = notices.changed().await;
        }
        eventually("the link is down", || link(&tree).state == LinkStatus::Down).await;
        // The broker starts on another thread, so that attempts continue meanwhile.
        let starting = thread::spawn(move || {
            rabbit.start_again();
            (Instant::now(), rabbit)
        });
        let again = wait_until_up(&mut notices).await;
        let bound_at = Instant::now();
        assert_eq!(again, before + 1);
        let (back_at, _rabbit) = starting.join().unwrap();
        let took = bound_at.saturating_duration_since(back_at);
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

/// A proxy, such as that of Docker, listens during the whole outage of the broker behind it.
#[test]
fn a_port_that_accepts_and_closes_is_tried_again_within_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_notices, spec) = at(&format!("amqp://guest:guest@{}/", listener.local_addr().unwrap()));
    TestTree::run(spec, async |tree| {
        // Dropping the connection closes it.
        let attempts = thread::spawn(move || listener.incoming().take(7).filter(Result::is_ok).count());
        eventually("seven attempts", || attempts.is_finished()).await;
        assert_eq!(attempts.join().unwrap(), 7);
        let reason = || link(&tree).reason.unwrap_or_default();
        eventually("the link is down", || reason().contains("connecting to the broker at ")).await;
    });
}

#[test]
fn an_unknown_host_is_a_link_state_and_not_a_crash() {
    let (notices, spec) = at("amqp://guest:guest@nobody.invalid/");
    TestTree::run(spec, async |tree| {
        let reason = || link(&tree).reason.unwrap_or_default();
        eventually("the link is down", || reason().contains("connecting to the broker at ")).await;
        let help = link(&tree).help.unwrap_or_default();
        assert!(help.starts_with("getent hosts nobody.invalid; "), "{help}");
        assert!(!notices.state().is_up);
    });
}
