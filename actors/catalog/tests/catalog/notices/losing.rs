//! Brokers that go away, and what they take away.

use std::time::{Duration, Instant};

use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
use orchestrator_supervise::Backoff;

use super::fixture::*;

#[test]
fn a_queue_that_is_deleted_is_declared_anew() {
    let url = rabbit().create_vhost("deleting");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |tree| {
        let teller = Teller::at(&url).await;
        for round in 1..=2 {
            let before = bound(&mut notices).await;
            // What an administrator may do, and no client, since the queue is exclusive.
            let delete = "[rabbit_amqqueue:delete(Q, false, false, <<\"test\">>) || Q <- rabbit_amqqueue:list(<<\"deleting\">>)].";
            rabbit().ctl(&["eval", delete]);
            reaches(&mut notices, before + 1).await;
            assert_eq!(metric(&tree, "bindings"), round + 1);
            teller.tell().await;
            reaches(&mut notices, before + 2).await;
        }
    });
}

#[test]
fn a_connection_that_is_closed_is_made_anew() {
    let url = rabbit().create_vhost("closing");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |tree| {
        let before = bound(&mut notices).await;
        rabbit().ctl(&["close_all_connections", "--vhost", "closing", "test"]);
        reaches(&mut notices, before + 1).await;
        assert_eq!(metric(&tree, "bindings"), 2);
    });
}

#[test]
fn a_broker_that_was_killed_is_listened_to_again_within_ten_seconds_of_its_return() {
    let mut rabbit = Rabbit::start();
    // No delay ends within this test: it must see by itself that somebody listens again.
    let minute = Duration::from_secs(60);
    let retry = Backoff { first: minute, max: minute };
    let (mut notices, spec) = with(Broker::new(&rabbit.url(), "test").unwrap(), retry);
    TestTree::run(spec, async |tree| {
        let before = bound(&mut notices).await;
        rabbit.kill_nine();
        let mut heard = notices.heard_now();
        while heard.is_up {
            heard = notices.changed().await;
        }
        eventually("the link is down", || link(&tree).state == "down").await;
        // It takes its time to start, on another thread: tries go on meanwhile.
        let starting = std::thread::spawn(move || {
            rabbit.start_again();
            (Instant::now(), rabbit)
        });
        let again = bound(&mut notices).await;
        let bound_at = Instant::now();
        assert_eq!(again, before + 1);
        let (back_at, _rabbit) = starting.join().unwrap();
        let took = bound_at.saturating_duration_since(back_at);
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}

#[test]
fn a_host_that_nobody_knows_is_a_state_and_not_an_end() {
    let (notices, spec) = at("amqp://guest:guest@nobody.invalid/");
    TestTree::run(spec, async |tree| {
        let reason = || link(&tree).reason.unwrap_or_default();
        eventually("the link is down", || reason().contains("see that it runs")).await;
        assert!(!notices.heard().is_up);
    });
}
