//! Outages under load: compares the records of an independent client with the database.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use fastrand::Rng;
use orchestrator_harness::{
    eventually,
    load::{SeededRng, for_each_seed},
    psql, rounds, sha1_of,
};
use rustix::process::Signal;
use serde_json::json;

use super::{
    caller::{CallRecord, Caller, Item, Message, load},
    fixture::{Fixture, Home, Servers, missing},
    topologies,
};

const ROUNDS: &str = "ORCHESTRATOR_PROVENANCE_KILL_ROUNDS";
/// Messages of a round, and rows of each.
const LOAD: (usize, usize) = (500, 40);
/// Rows of a round's import.
const IMPORTED: u32 = 3_000;
/// Stop timeout of `deploy/orchestrator.service`.
const GRACE: Duration = Duration::from_secs(30);

/// Duration of an outage.
fn outage() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_PROVENANCE_OUTAGE_SECS", 2))
}

/// Guarantee of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// Accepted rows are stored; answers may be lost with the server.
    Stored,
    /// Accepted rows are stored and answered.
    Answered,
    /// Rows accepted by the broker are stored; others must be sent again, and answers may be lost.
    Durable,
}

/// Runs a load, calls `cause_outage` during it, and checks what `promise` guarantees.
///
/// All servers must be up again after `cause_outage`. Returns the messages with their outcomes.
fn round(
    fixture: &mut Fixture,
    seed: u64,
    promise: Promise,
    cause_outage: impl FnOnce(&mut Servers, &Home, &CallRecord),
) -> Vec<Message> {
    let number = u8::try_from(seed).expect("few rounds");
    let mut rng = SeededRng::new(seed);
    let contents = (0..IMPORTED).map(|n| json!({"add": "content", "id": sha1_of(number, n)}));
    let rows = fixture.home.env.file(contents);
    let messages = load(&mut Rng::with_seed(seed), LOAD.0, LOAD.1);
    let caller = Caller::start(&fixture.home.url, promise == Promise::Durable, messages);
    let record = caller.record.clone();
    let checking = AtomicBool::new(true);
    let Fixture { servers, home } = &mut *fixture;
    std::thread::scope(|scope| {
        let checking = Ended(&checking);
        let checker = scope.spawn(|| check(&home.dsn, &record, checking.0));
        let import = scope.spawn(|| home.env.base().cli(&["provenance", "import", "--resume", &rows]));
        let goal = 20 + rng.below(LOAD.0 / 3);
        eventually("some messages to be answered", || record.answers() > goal);
        assert!(record.answers() < LOAD.0, "the load was over before the outage");
        cause_outage(servers, home, &record);
        let (code, _, err) = import.join().expect("an import that ends");
        assert!([0, 1, 3, 5, 6].contains(&code), "{code}: {err}");
        drop(checking);
        checker.join().expect("answered rows are stored");
    });
    let imported = || {
        let sql = format!("SELECT count(*) FROM content WHERE get_byte(sha1, 1) = {number}");
        psql(&fixture.home.dsn, &sql).expect("a database").parse::<u64>().expect("a count")
    };
    let (confirmed, there) = (fixture.home.env.confirmed(&rows), imported());
    assert!(there >= confirmed, "{there} rows of {confirmed} that an import knows to be stored");
    eventually("an import that goes on to its end", || {
        fixture.home.env.base().cli(&["provenance", "import", "--resume", &rows]).0 == 0
    });
    assert_eq!(imported(), u64::from(IMPORTED));
    let all = |what: fn(&Message) -> bool| record.messages().iter().all(what);
    if promise != Promise::Durable {
        eventually("the broker to confirm all", || all(|message| message.confirmed));
    }
    if promise == Promise::Answered {
        eventually("an answer for each row", || {
            all(|message| message.answered() >= message.items.len() as u64)
        });
    }
    fixture.emptied();
    // A lost connection is no failure: the record decides.
    let _ = caller.end();
    let messages = record.messages();
    let accepted = messages.iter().filter(|message| message.confirmed);
    let accepted: Vec<Item> = accepted.flat_map(|message| message.items.clone()).collect();
    assert_eq!(missing(&fixture.home.dsn, &accepted), Ok(0), "rows that the broker accepted are lost");
    for message in &messages {
        let (answered, sent) = (message.answered(), message.items.len() as u64);
        assert!(answered <= sent, "{answered} of {sent} rows answered for: {:?}", message.answers);
    }
    messages
}

/// Stops the check when dropped, even if the test fails.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// Verifies the rows of each answer as soon as it arrives, or after the end of a database outage.
fn check(dsn: &str, record: &CallRecord, is_running: &AtomicBool) {
    let mut fresh = Vec::new();
    loop {
        let last = !is_running.load(SeqCst);
        fresh.extend(record.take_unchecked());
        match missing(dsn, &fresh) {
            Ok(missing) => {
                assert_eq!(missing, 0, "rows were answered for and are not stored");
                fresh.clear();
            }
            Err(reason) => assert!(!last, "{reason}"),
        }
        if last {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_server_loses_no_row_and_answers_once() {
    let mut fixture = Fixture::new("killed", "with-path");
    let mut instance = Some(fixture.home.start());
    for_each_seed(ROUNDS, 1, |seed| {
        round(&mut fixture, seed, Promise::Stored, |_, home, _| {
            instance.take().expect("an instance").kill_nine();
            instance = Some(home.start());
        });
    });
    let instance = instance.expect("an instance");
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}

#[test]
fn a_stopped_server_answers_everything_in_time() {
    let mut fixture = Fixture::new("stopped", "with-path");
    let mut instance = Some(fixture.home.start());
    for_each_seed(ROUNDS, 1, |seed| {
        round(&mut fixture, seed, Promise::Answered, |_, home, _| {
            let (begun, stopped) = (Instant::now(), instance.take().expect("an instance"));
            let status = stopped.terminate();
            assert!(status.success() && begun.elapsed() < GRACE, "{status} after {:?}", begun.elapsed());
            instance = Some(home.start());
        });
    });
}

#[test]
fn nothing_is_answered_during_a_database_outage_and_all_is_stored_after_it() {
    let mut fixture = Fixture::with_own_database("away", "with-path-denormalized");
    let instance = fixture.home.start();
    // Answers to the independent client, without those to the program's own client.
    let sent = |home: &Home| home.metric("amqp", "responses") - home.metric("publisher", "responses");
    for_each_seed(ROUNDS, 2, |seed| {
        let earlier = sent(&fixture.home);
        round(&mut fixture, seed, Promise::Answered, |servers, home, record| {
            let failed = home.metric("writer", "retries");
            match seed % 2 {
                0 => servers.postgres.own().stop(),
                _ => servers.postgres.own().kill_nine(),
            }
            // Wait until every connection is down and all committed rows are answered.
            eventually("the writer to notice", || {
                home.link("writer") == "down" && home.metric("writer", "retries") >= failed + 6
            });
            eventually("the last answers to arrive", || sent(home) - earlier <= record.answers() as u64);
            let (answers, begun) = (record.answers(), Instant::now());
            eventually("the outage to pass", || {
                assert_eq!(record.answers(), answers, "an answer without a database");
                begun.elapsed() > outage()
            });
            assert!(home.metric("amqp", "unacknowledged") > 0, "messages wait for the database");
            // Verify answered rows before the suspended server can store them again.
            instance.signal(Signal::STOP);
            servers.postgres.own().start_again();
            let answered = record.messages().into_iter().filter(|message| message.answered() > 0);
            let answered: Vec<Item> = answered.flat_map(|message| message.items).collect();
            let missing = missing(&home.dsn, &answered);
            instance.signal(Signal::CONT);
            assert_eq!(missing, Ok(0), "rows were answered for and not stored");
        });
        eventually("the last acknowledgement", || fixture.home.metric("amqp", "unacknowledged") == 0);
    });
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}

/// Quorum queues survive a kill, and durable ones a restart. The others end with the broker.
#[test]
fn rows_accepted_by_a_killed_broker_are_stored() {
    let fixture = Fixture::with_own_broker("broker", "with-path");
    let mut fixture = fixture.set("provenance.amqp.topology=quorum");
    let instance = fixture.home.start();
    let durable = Home::new(&fixture.servers.rabbit, "durable", &fixture.home.dsn);
    let durable_items = topologies::requests_for_later(&durable);
    // A quorum queue created just before a kill may lose its leader for good (RabbitMQ 3.10), so stop cleanly
    // first.
    fixture.servers.rabbit.own().stop();
    eventually("the server to notice", || fixture.home.metric("amqp", "consumed") == 0);
    fixture.servers.rabbit.own().start_again();
    fixture.home.serving();
    topologies::stores_requests(&durable, &durable_items);
    for_each_seed(ROUNDS, 1, |seed| {
        let messages = round(&mut fixture, seed, Promise::Durable, |servers, home, _| {
            servers.rabbit.own().kill_nine();
            let begun = Instant::now();
            eventually("the server to notice", || home.metric("amqp", "consumed") == 0);
            eventually("the outage to pass", || begun.elapsed() > outage());
            servers.rabbit.own().start_again();
            home.serving();
        });
        // The client sends unconfirmed messages again.
        let mut again: Vec<Message> = messages.into_iter().filter(|message| !message.confirmed).collect();
        again.iter_mut().for_each(|message| message.answers.clear());
        let caller = Caller::start(&fixture.home.url, true, again);
        eventually("answers to all that is sent again", || {
            caller.record.messages().iter().all(|message| message.answered() == message.items.len() as u64)
        });
        caller.end().expect("a connection");
    });
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}

/// A broker with an alarm takes nothing from clients that publish, and the program publishes answers.
#[test]
fn an_alarm_of_the_broker_loses_no_row_and_delays_no_stop() {
    let mut fixture = Fixture::with_own_broker("alarm", "with-path");
    let mut instance = Some(fixture.home.start());
    for (seed, promise) in [(1, Promise::Answered), (2, Promise::Stored)] {
        round(&mut fixture, seed, promise, |servers, home, _| {
            servers.rabbit.eval("rabbit_disk_monitor:set_disk_free_limit(\"100000GB\")");
            // The load may be over by now, and a broker tells its alarm to those that publish.
            let more = home.env.base().path().join("more.jsonl").display().to_string();
            let row = json!({"add": "content", "id": sha1_of(9, 0)});
            std::fs::write(&more, format!("{row}\n")).expect("write a file of rows");
            std::thread::scope(|scope| {
                let import = scope.spawn(|| home.env.base().cli(&["provenance", "import", &more]));
                home.env.base().first_cause("provenance", "takes no messages: low on disk");
                let begun = Instant::now();
                if promise == Promise::Stored {
                    let status = instance.take().expect("an instance").terminate();
                    assert!(
                        status.success() && begun.elapsed() < GRACE,
                        "{status} after {:?}",
                        begun.elapsed()
                    );
                }
                eventually("the outage to pass", || begun.elapsed() > outage());
                servers.rabbit.eval("rabbit_disk_monitor:set_disk_free_limit(\"1MB\")");
                instance.get_or_insert_with(|| home.start());
                import.join().expect("an import that ends");
            });
        });
    }
}
