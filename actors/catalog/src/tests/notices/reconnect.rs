//! Brokers that fail, and queues that disappear.

use std::time::{Duration, Instant};

use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
use orchestrator_supervise::Backoff;

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
            let delete = "[rabbit_amqqueue:delete(Q, false, false, <<\"test\">>) || Q <- rabbit_amqqueue:list(<<\"deleting\">>)].";
            rabbit().ctl(&["eval", delete]);
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
    // The backoff does not end within this test: the check of the port must end it.
    let minute = Duration::from_secs(60);
    let retry = Backoff { first: minute, max: minute };
    let (mut notices, spec) = with(Broker::new(&rabbit.url(), "test").unwrap(), retry);
    TestTree::run(spec, async |tree| {
        let before = wait_until_up(&mut notices).await;
        rabbit.kill_nine();
        let mut state = notices.mark_seen();
        while state.is_up {
            state = notices.changed().await;
        }
        eventually("the link is down", || link(&tree).state == "down").await;
        // The broker starts on another thread, so that attempts continue meanwhile.
        let starting = std::thread::spawn(move || {
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

#[test]
fn an_unknown_host_is_a_link_state_and_not_a_crash() {
    let (notices, spec) = at("amqp://guest:guest@nobody.invalid/");
    TestTree::run(spec, async |tree| {
        let reason = || link(&tree).reason.unwrap_or_default();
        eventually("the link is down", || reason().contains("check that it runs")).await;
        assert!(!notices.state().is_up);
    });
}
