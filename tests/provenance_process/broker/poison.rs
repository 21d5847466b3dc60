//! Unstorable rows and bodies under load: each becomes a dead letter and appears in tree and metrics,
//! and all other rows are stored.

use std::collections::BTreeMap;

use fastrand::Rng;
use futures_util::StreamExt;
use lapin::{Connection, ConnectionProperties, message::Delivery, options::*, types::FieldTable};
use orchestrator_harness::{eventually, http};

use super::{
    caller::{Caller, Item, Message, load},
    fixture::{Fixture, Home, missing},
};

const DEAD_LETTER: &str = "orchestrator.provenance.dead_letter";

/// Location row and its encoding.
fn location(path: &[u8]) -> (Item, Vec<u8>) {
    let length = u16::try_from(path.len()).expect("a short path").to_be_bytes();
    let encoded = [&[0x91, 0xc5], &length[..], path].concat();
    (Item { table: "location", column: "path", key: path.to_vec() }, encoded)
}

/// Origin row and its encoding.
fn origin(first: u8, url: &str) -> (Item, Vec<u8>) {
    let id = [&[first][..], &[7; 19]].concat();
    let length = u8::try_from(url.len()).expect("a short url");
    let encoded = [&[0x92, 0xc4, 20], &id[..], &[0xd9, length], url.as_bytes()].concat();
    (Item { table: "origin", column: "sha1", key: id }, encoded)
}

/// Message with all of `items`, of which the one at `bad` cannot be stored.
fn poisoned(method: &'static str, range: u8, items: &[(Item, Vec<u8>)], bad: usize) -> Message {
    let good = items.iter().enumerate().filter(|(at, _)| *at != bad).map(|(_, (item, _))| item.clone());
    let encoded: Vec<_> = items.iter().map(|(_, encoded)| encoded.clone()).collect();
    Message::new(method, range, good.collect(), &encoded)
}

#[test]
fn unstorable_rows_become_dead_letters_with_a_reason() {
    let fixture = Fixture::new("poison", "with-path");
    fixture.servers.postgres.script(
        &fixture.home.dsn,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON origin FOR EACH ROW WHEN (NEW.url = 'https://no') EXECUTE FUNCTION refuse()",
    );
    let instance = fixture.home.start();
    let paths = [b"a".to_vec(), b"a/b".to_vec(), vec![b'x'; 3_000], b"a/b/c".to_vec()];
    let locations: Vec<_> = paths.iter().map(|path| location(path)).collect();
    let origins = [(0x15, "https://a"), (0x25, "https://nul\0"), (0x35, "https://b")];
    let origins: Vec<_> = origins.map(|(id, url)| origin(id, url)).into();
    let mut messages = load(&mut Rng::with_seed(1), 300, 40);
    messages.insert(100, poisoned("location_add", 3, &locations, 2));
    messages.insert(150, Message::broken("content_add", 9, b"\x81\xa4data\x92\x91\xc4\x14cut off"));
    messages.insert(200, poisoned("origin_add", 5, &origins, 1));
    let triggered = [(0x16, "https://c"), (0x26, "https://no"), (0x36, "https://d")];
    messages.insert(250, poisoned("origin_add", 6, &triggered.map(|(id, url)| origin(id, url)), 1));
    let sent = messages.len();
    let caller = Caller::start(&fixture.home.url, false, messages);
    // The invalid body has no answer; the other messages have answers for their valid rows only.
    eventually("an answer for each but one", || caller.record.answers() == sent - 1);
    let messages = caller.record.messages();
    for message in &messages {
        assert_eq!(message.answered(), message.items.len() as u64, "{message:?}");
    }
    let items: Vec<Item> = messages.iter().flat_map(|message| message.items.clone()).collect();
    assert_eq!(missing(&fixture.home.dsn, &items), Ok(0));
    eventually("four dead letters and nothing else on the broker", || {
        fixture.waiting() == BTreeMap::from([(DEAD_LETTER.to_owned(), 4)])
    });
    assert_eq!(caller.record.answers(), sent - 1);
    caller.end().expect("a connection");

    check_tree_and_metrics(&fixture.home);
    check_dead_letters(&fixture.home, &messages);
    assert!(instance.terminate().success(), "{}", fixture.home.env.base().log());
}

fn check_tree_and_metrics(home: &Home) {
    let env = home.env.base();
    let (code, tree, err) = env.cli(&["tree"]);
    assert_eq!(code, 0, "{err}");
    for (child, reason) in [
        ("(location_3)", "row refused: path of 3000 bytes: the maximum is 2704"),
        ("(origin_5)", "row refused: url of origin 2507070707070707070707070707070707070707 contains a NUL"),
        ("(origin_6)", "row refused: the database failed while writing rows: not this one (SQLSTATE P0001)"),
        ("amqp", "message of content_add.unknown.9 refused: the body is not a complete msgpack value"),
    ] {
        let line = tree.lines().find(|line| line.contains(child) && line.contains("ago: "));
        assert!(line.is_some_and(|line| line.contains(reason)), "{child}: {reason}\n{tree}");
    }
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    for line in [
        r#"orchestrator_provenance_dead_lettered_messages_total{path="orchestrator/provenance/amqp"} 4"#,
        r#"orchestrator_provenance_unreadable_messages_total{path="orchestrator/provenance/amqp"} 1"#,
        r#"orchestrator_provenance_refused_rows_total{path="orchestrator/provenance/range_worker/67"} 1"#,
        r#"orchestrator_provenance_refused_rows_total{path="orchestrator/provenance/range_worker/53"} 1"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
}

fn check_dead_letters(home: &Home, messages: &[Message]) {
    let letters = letters(&home.url, 4);
    let mut headers: Vec<(String, String, usize)> = letters
        .iter()
        .map(|letter| {
            let header = |name: &str| {
                let table = letter.properties.headers().as_ref().expect("headers");
                let value = table.inner().get(name).and_then(|value| value.as_long_string()).expect("a text");
                value.to_string()
            };
            assert_eq!(header("x-exchange"), header("x-routing-key").split('_').next().expect("a word"));
            (header("x-routing-key"), header("x-reason"), letter.data.len())
        })
        .collect();
    headers.sort();
    let read: Vec<(&str, &str, usize)> = headers
        .iter()
        .map(|(key, reason, len)| (key.as_str(), reason.split(':').next().expect("a text"), *len))
        .collect();
    // The dead letter of an invalid body is the body, of the other messages the one bad row.
    assert_eq!(
        read,
        [
            ("content_add.unknown.9", "the body is not a complete msgpack value", 17),
            ("location_add.unknown.3", "path of 3000 bytes", 7 + 4 + 3_000),
            (
                "origin_add.unknown.5",
                "url of origin 2507070707070707070707070707070707070707 contains a NUL, which is not allowed",
                7 + 37
            ),
            ("origin_add.unknown.6", "the database failed while writing rows", 7 + 35),
        ]
    );
    let ids: Vec<_> =
        letters.iter().filter_map(|letter| letter.properties.correlation_id().clone()).collect();
    assert_eq!(ids.len(), 4);
    assert!(messages.len() > 4);
}

/// Consumes `count` dead letters.
fn letters(url: &str, count: usize) -> Vec<Delivery> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let connection =
            Connection::connect(url, ConnectionProperties::default()).await.expect("a connection");
        let channel = connection.create_channel().await.expect("a channel");
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consumer = channel.basic_consume(DEAD_LETTER.into(), "".into(), options, FieldTable::default());
        let letters = consumer.await.expect("a queue").take(count).map(|letter| letter.expect("a letter"));
        letters.collect().await
    })
}
