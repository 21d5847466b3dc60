//! Notifications of a real server.

use std::time::Duration;

use orchestrator_harness::Postgres;

use super::session::open;
use crate::{PeerErrorKind, postgres::Session};

/// Time in which an expected notification comes.
const SOON: Duration = Duration::from_secs(30);

/// The first session listens to `c`.
async fn pair(database: &str) -> (Session, Session) {
    let dsn = Postgres::shared().create_database(database);
    let (mut listener, other) = (open(&dsn).await, open(&dsn).await);
    listener.batch("listening", "LISTEN c").await.expect("it listens");
    (listener, other)
}

async fn notify(session: &mut Session, payload: String) {
    let sql = "SELECT pg_notify('c', $1)::text";
    session.query("notifying", sql, vec![Box::new(payload)]).await.expect("notified");
}

/// Waits for the payload of the next notification.
async fn next(listener: &mut Session) -> String {
    let notification = listener.notified(SOON).await.expect("a connection").expect("a notification");
    assert_eq!(notification.channel(), "c");
    notification.payload().to_owned()
}

#[tokio::test]
async fn notifications_come_in_order() {
    let (mut listener, mut other) = pair("order").await;
    let (first, ()) = tokio::join!(next(&mut listener), notify(&mut other, "0".to_owned()));
    assert_eq!(first, "0");
    other.batch("notifying", "NOTIFY c, '1'; NOTIFY d; NOTIFY c, '2'").await.expect("notified");
    notify(&mut other, "3".to_owned()).await;
    for number in 1..4 {
        assert_eq!(next(&mut listener).await, number.to_string());
    }
    let late = listener.notified(Duration::from_millis(20)).await.expect("a connection");
    assert!(late.is_none(), "{late:?}");
    notify(&mut other, "after a time-out".to_owned()).await;
    assert_eq!(next(&mut listener).await, "after a time-out");
}

#[tokio::test]
async fn notifications_during_other_calls_are_kept() {
    let (mut listener, mut other) = pair("kept").await;
    let mut wanted = Vec::new();
    for number in 0..20 {
        notify(&mut other, number.to_string()).await;
        listener.batch("working", "SELECT 1").await.expect("an answer");
        // Its own notification comes before the end of the answer.
        notify(&mut listener, format!("own {number}")).await;
        wanted.extend([number.to_string(), format!("own {number}")]);
    }
    for payload in wanted {
        assert_eq!(next(&mut listener).await, payload);
    }
    assert_eq!(listener.take_dropped(), 0);
}

/// Notifies of `count` payloads of about 7.9 kB that end with a number from `first` on.
fn long_payloads(first: u32, count: u32) -> String {
    let last = first + count - 1;
    format!("SELECT pg_notify('c', repeat('x', 7900) || n)::text FROM generate_series({first}, {last}) n")
}

#[tokio::test]
async fn the_oldest_notifications_beyond_the_limits_are_dropped() {
    let (mut listener, _) = pair("dropped").await;
    let sql = "SELECT pg_notify('c', n::text)::text FROM generate_series(1, 1100) n";
    listener.batch("notifying", sql).await.expect("notified");
    assert_eq!((listener.take_dropped(), listener.take_dropped()), (76, 0));
    for number in 77..=1_100 {
        assert_eq!(next(&mut listener).await, number.to_string());
    }
    for first in [100, 200] {
        listener.batch("notifying", &long_payloads(first, 100)).await.expect("notified");
    }
    let (kept, first) = (132, next(&mut listener).await);
    assert_eq!(listener.take_dropped(), 200 - kept, "payloads of 7,903 bytes in 1 MiB");
    assert!(first.ends_with("x168"), "{first}");
}

#[tokio::test]
async fn a_listener_receives_any_number_of_notifications_but_no_flood_during_a_call() {
    let (mut listener, mut other) = pair("flood").await;
    let sql = long_payloads(100, 400);
    let (notified, ()) = tokio::join!(other.batch("notifying", &sql), async {
        for number in 100..500 {
            assert!(next(&mut listener).await.ends_with(&format!("x{number}")));
        }
    });
    notified.expect("notified");
    let flood = listener.batch("notifying", &long_payloads(100, 400)).await.expect_err("3 MB unasked");
    assert_eq!(flood.peer.kind, PeerErrorKind::Malformed);
    assert!(flood.to_string().contains("more than 1048576 bytes unasked"), "{flood}");
}
