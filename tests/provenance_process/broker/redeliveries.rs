//! Messages of quorum queues while the database cannot store them: the broker counts each delivery, and
//! deletes what it delivered too often.

use orchestrator_harness::{OpenSession, Rabbit, eventually};

use super::{
    caller::{Caller, Item, Message},
    fixture::{Fixture, missing},
};

/// Messages of 10 locations each.
const MESSAGES: u8 = 20;

fn location(message: u8, row: u8) -> (Item, Vec<u8>) {
    let path = [b'p', message, row];
    (Item { table: "location", column: "path", key: path.to_vec() }, [&[0x91, 0xc4, 3], &path[..]].concat())
}

/// Sends 200 locations to the broker at `url`, which confirms them.
pub(super) fn send(url: &str) -> (Caller, Vec<Item>) {
    let (mut messages, mut all) = (Vec::new(), Vec::new());
    for message in 0..MESSAGES {
        let (items, encoded): (Vec<_>, Vec<_>) = (0..10).map(|row| location(message, row)).unzip();
        all.extend(items.clone());
        messages.push(Message::new("location_add", message % 16, items, &encoded));
    }
    let caller = Caller::start(url, true, messages);
    eventually("the broker to confirm all", || {
        caller.record.messages().iter().all(|message| message.confirmed)
    });
    (caller, all)
}

#[test]
fn a_database_that_is_locked_during_kills_costs_no_delivery() {
    let fixture = Fixture::new("locked", "with-path").set("provenance.amqp.topology=quorum");
    let limit = r#"{"delivery-limit":0}"#;
    fixture.servers.rabbit.ctl(&["set_policy", "-p", "locked", "few", ".*", limit, "--apply-to", "queues"]);
    fixture.home.start().kill_nine();
    let lock = OpenSession::start(&fixture.home.dsn, "lock", "BEGIN; LOCK TABLE location IN EXCLUSIVE MODE");
    let (caller, items) = send(&fixture.home.url);
    let instance = fixture.home.env.start();
    // A program that consumes all the same is killed after it.
    eventually("the program to wait for its database", || {
        fixture.home.link("writer") == "unanswered" || fixture.home.metric("amqp", "unacknowledged") > 0
    });
    instance.kill_nine();
    drop(lock);
    let instance = fixture.home.start();
    // A quorum queue counts its messages late.
    eventually("all confirmed rows to be stored", || missing(&fixture.home.dsn, &items) == Ok(0));
    let _ = caller.end();
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}

/// Locks the rows of the messages, not their table, so that the database answers.
fn locked_rows(dsn: &str) -> OpenSession {
    let paths: Vec<String> = (0..MESSAGES).map(|message| format!("('\\x70{message:02x}00')")).collect();
    OpenSession::start(dsn, "lock", &format!("BEGIN; INSERT INTO location (path) VALUES {}", paths.join(",")))
}

/// A broker cancels a consumer that does not acknowledge a message in time, or closes its channel.
#[test]
fn a_consumer_that_timed_out_consumes_again_and_stores_each_row() {
    let rabbit = Rabbit::start_with("consumer_timeout = 2000\n");
    // Until RabbitMQ 4.2, a channel looks for time-outs.
    rabbit.eval("application:set_env(rabbit, channel_tick_interval, 1000)");
    // Since RabbitMQ 4.3, only consumers of quorum queues time out.
    let fixture =
        Fixture::with_broker(rabbit, "timed_out", "with-path").set("provenance.amqp.topology=quorum");
    let home = &fixture.home;
    let instance = home.start();
    let lock = locked_rows(&home.dsn);
    let (caller, items) = send(&home.url);
    eventually("a time-out", || home.metric("amqp", "consumed") < 160);
    drop(lock);
    eventually("all confirmed rows to be stored", || missing(&home.dsn, &items) == Ok(0));
    home.serving();
    eventually("all to be acknowledged", || home.metric("amqp", "unacknowledged") == 0);
    fixture.emptied();
    let _ = caller.end();
    assert!(instance.terminate().success(), "{}", home.env.base().log());
}

#[test]
fn a_message_that_is_delivered_again_and_again_is_a_cause_and_is_kept() {
    // RabbitMQ 4 deletes a message at its 21st delivery unless the queue has another limit.
    let kills = if Rabbit::major_version() >= 4 { 25 } else { 11 };
    let fixture = Fixture::new("again", "with-path").set("provenance.amqp.topology=quorum");
    let mut instance = fixture.home.start();
    let lock = locked_rows(&fixture.home.dsn);
    let (caller, items) = send(&fixture.home.url);
    for _ in 0..kills {
        eventually("all to be delivered", || {
            fixture.home.metric("amqp", "unacknowledged") == u64::from(MESSAGES)
        });
        instance.kill_nine();
        instance = fixture.home.env.start();
    }
    let text = format!("was delivered {kills} times");
    let causes = || fixture.home.env.base().causes("provenance");
    eventually("the cause", || {
        causes()
            .iter()
            .any(|cause| cause.text.contains(&text) && cause.help.contains("set_policy -p 'again'"))
    });
    drop(lock);
    // A quorum queue counts its messages late.
    eventually("all confirmed rows to be stored", || missing(&fixture.home.dsn, &items) == Ok(0));
    let _ = caller.end();
    eventually("the end of the cause", || causes().iter().all(|cause| !cause.text.contains("delivered")));
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}
