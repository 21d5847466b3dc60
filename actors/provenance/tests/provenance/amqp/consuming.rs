//! Declaring, delivering, settling.

use orchestrator_provenance::{
    edge::amqp::DEAD_LETTER,
    messages::{Refusal, Settled},
    policy::{self, Worker},
};
use orchestrator_supervise::{Origin, Verb, testing::TestTree};

use super::house::*;

#[test]
fn all_queues_are_declared_as_the_contract_says_and_each_has_its_consumer() {
    let url = rabbit().vhost("topology");
    let (presence, spec) = with_sink(&url, Worker::all().collect(), store_all());
    assert_eq!(presence.missing().len(), 160);
    TestTree::run(spec, async |tree| {
        all_consumed(&presence).await;
        eventually("the link is up", || link(&tree).contains("up")).await;
        assert_eq!(figure(&tree, "consumed"), 160);
        let list = |what: &[&str]| {
            let mut arguments = vec![what[0], "--no-table-headers", "-p", "topology"];
            arguments.extend(&what[1..]);
            rabbit().ctl(&arguments)
        };
        let queues = table(&list(&[
            "list_queues",
            "name",
            "durable",
            "exclusive",
            "auto_delete",
            "arguments",
            "consumers",
        ]));
        let exchanges = table(&list(&[
            "list_exchanges",
            "name",
            "type",
            "durable",
            "auto_delete",
            "internal",
            "arguments",
        ]));
        let bindings = list(&["list_bindings", "source_name", "destination_name", "routing_key"]);
        let mut keys = 0;
        for worker in Worker::all() {
            let exchange = worker.exchange.name();
            assert_eq!(exchanges[exchange][1..], ["direct", "false", "false", "false", "[]"]);
            for key in policy::binding_keys(worker.exchange, worker.range) {
                assert_eq!(queues[&key][1..], ["false", "false", "false", "[]", "1"], "{key}");
                assert!(bindings.contains(&format!("{exchange}\t{key}\t{key}")), "{key}");
                keys += 1;
            }
        }
        assert_eq!((keys, queues.len()), (160, 161));
        assert_eq!(queues[DEAD_LETTER][1..5], ["true", "false", "false", "[]"]);
    });
    assert_eq!(presence.missing().len(), 160, "nothing is consumed after the stop");
}

#[test]
fn a_client_of_the_original_gets_its_count_after_the_message_was_acknowledged() {
    let url = rabbit().vhost("response");
    let (house, spec) = by_hand(&url, vec![worker(10)]);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let mut client = Client::connect(&url).await;
        client.send("content_add.unknown.a", "one", &contents(3)).await;
        client.send("content_add.unknown.a", "two", &contents(200)).await;
        let (first, second) = (house.request().await, house.request().await);
        assert_eq!((first.0, first.1.rows.len(), second.1.rows.len()), (worker(10), 3, 200));
        assert_eq!(figure(&tree, "acked"), 0, "nothing is acknowledged before it is stored");
        // The later one is stored first: it alone is acknowledged and answered.
        second.1.reply.send(settled(200)).unwrap();
        assert_eq!(client.response().await, ("two".to_owned(), 200));
        assert_eq!(figure(&tree, "acked"), 1);
        eventually("the response is counted", || figure(&tree, "responses") == 1).await;
        let unacked =
            || rabbit().ctl(&["list_queues", "-p", "response", "--no-table-headers", "messages", "name"]);
        assert!(unacked().contains("1\tcontent_add.unknown.a"), "{}", unacked());
        first.1.reply.send(settled(3)).unwrap();
        assert_eq!(client.response().await, ("one".to_owned(), 3));
        // A response that is here was sent after the acknowledgement, on the same channel.
        assert!(unacked().contains("0\tcontent_add.unknown.a"), "{}", unacked());
    });
}

#[test]
fn a_message_whose_worker_ended_is_delivered_again() {
    let url = rabbit().vhost("again");
    let (house, spec) = by_hand(&url, vec![worker(0)]);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let mut client = Client::connect(&url).await;
        client.send("content_add.unknown.0", "one", &contents(2)).await;
        drop(house.request().await);
        let (_, request) = house.request().await;
        eventually("it is counted", || figure(&tree, "redelivered") == 1).await;
        request.reply.send(settled(2)).unwrap();
        assert_eq!(client.response().await, ("one".to_owned(), 2));
        // One response only: what comes next is another call's.
        client.send("content_add.unknown.0", "two", &contents(1)).await;
        house.request().await.1.reply.send(settled(1)).unwrap();
        assert_eq!(client.response().await, ("two".to_owned(), 1));
    });
}

#[test]
fn what_can_never_be_stored_becomes_a_dead_letter_and_the_range_lives_on() {
    let url = rabbit().vhost("dead");
    let (house, spec) = by_hand(&url, vec![worker(1)]);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let mut client = Client::connect(&url).await;
        let key = "content_add.unknown.1";
        client.send(key, "rubbish", b"no msgpack").await;
        // Three items: the second is no row, the last is refused by the store.
        let items = [
            &[0x92, 0xc4, 20][..],
            &[0; 20],
            &[0xc0],       // a row
            &[0xa1, b'?'], // none
            &[0x92, 0xc4, 20],
            &[2; 20],
            &[0xc0], // a row
        ];
        let mixed = [&[0x81, 0xa4][..], b"data", &[0x93], &items.concat()].concat();
        client.send(key, "mixed", &mixed).await;
        let (_, request) = house.request().await;
        let refused = vec![Refusal { index: 1, reason: "too long for an index".to_owned() }];
        assert_eq!(request.rows.len(), 2);
        request.reply.send(Settled { stored: 1, refused }).unwrap();
        assert_eq!(client.response().await, ("mixed".to_owned(), 1));
        assert_eq!((figure(&tree, "dead_lettered"), figure(&tree, "acked")), (3, 2));
        let mut letters = Vec::new();
        while let Some(letter) = client.get(DEAD_LETTER).await {
            let headers = letter.properties.headers().as_ref().unwrap().inner();
            let header = |name: &str| headers[name].as_long_string().unwrap().to_string();
            assert_eq!((header("x-exchange").as_str(), header("x-routing-key").as_str()), ("content", key));
            assert_eq!(letter.properties.delivery_mode(), &Some(2));
            let id = letter.properties.correlation_id().as_ref().unwrap().to_string();
            letters.push((id, header("x-reason"), letter.data));
        }
        letters.sort();
        let body = |item: &[&[u8]]| [&[0x81, 0xa4][..], b"data", &[0x91], &item.concat()].concat();
        let bodies: Vec<_> = letters.iter().map(|(id, _, body)| (id.as_str(), body.clone())).collect();
        assert!(letters[2].0 == "rubbish" && letters[2].1.contains("send a map"), "{letters:?}");
        assert_eq!(bodies[2], ("rubbish", b"no msgpack".to_vec()));
        assert!(bodies.contains(&("mixed", body(&items[3..4]))), "{letters:?}");
        assert!(bodies.contains(&("mixed", body(&items[4..]))), "{letters:?}");
        assert!(letters[..2].iter().any(|(_, reason, _)| reason == "too long for an index"));
        // The range lives on.
        client.send(key, "next", &contents(1)).await;
        house.request().await.1.reply.send(settled(1)).unwrap();
        assert_eq!(client.response().await, ("next".to_owned(), 1));
    });
}

#[test]
fn a_full_worker_is_offered_the_same_message_again_and_the_others_wait_in_order() {
    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    };
    let url = rabbit().vhost("full");
    let (refusals, taken) = (Arc::new(AtomicU32::new(5)), Arc::new(Mutex::new(Vec::new())));
    let (left, order) = (refusals.clone(), taken.clone());
    let (presence, spec) = with_sink(
        &url,
        vec![worker(2)],
        Arc::new(move |_, request| {
            if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                return Err(request);
            }
            order.lock().unwrap().push(request.rows.len());
            let _ = request.reply.send(settled(request.rows.len() as u32));
            Ok(())
        }),
    );
    TestTree::run(spec, async |_tree| {
        all_consumed(&presence).await;
        let mut client = Client::connect(&url).await;
        for count in 1..=20 {
            client.send("content_add.unknown.2", "call", &contents(count)).await;
        }
        let mut sum = 0;
        while sum < 210 {
            sum += client.response().await.1;
        }
        assert_eq!(sum, 210);
        assert_eq!(*taken.lock().unwrap(), (1..=20).collect::<Vec<_>>());
    });
}

#[test]
fn a_stop_settles_what_is_in_hand() {
    let url = rabbit().vhost("stop");
    let (house, spec) = by_hand(&url, vec![worker(3)]);
    actix_rt::System::new().block_on(async {
        let mut tested = TestTree::start(spec).await;
        all_consumed(&house.presence).await;
        let mut client = Client::connect(&url).await;
        client.send("content_add.unknown.3", "one", &contents(2)).await;
        let (_, request) = house.request().await;
        tested.root().request_stop();
        // Asked over the wire: the broker's own command may take longer than the stop has.
        client.await_no_consumer("content_add.unknown.3").await;
        request.reply.send(settled(2)).unwrap();
        assert_eq!(client.response().await, ("one".to_owned(), 2));
        tested.stop().await;
    });
}

#[test]
fn a_paused_consumer_hands_on_nothing_until_it_is_resumed() {
    let url = rabbit().vhost("paused");
    let (house, spec) = by_hand(&url, vec![worker(4)]);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let command = async |verb| tree.command("amqp", verb, &Origin::default()).await.unwrap();
        command(Verb::Pause).await;
        let mut client = Client::connect(&url).await;
        client.send("content_add.unknown.4", "one", &contents(1)).await;
        let ready = || {
            rabbit().ctl(&[
                "list_queues",
                "-p",
                "paused",
                "--no-table-headers",
                "messages_unacknowledged",
                "name",
            ])
        };
        eventually("the broker has delivered it", || ready().contains("1\tcontent_add.unknown.4")).await;
        assert!(house.requests.try_recv().is_err());
        command(Verb::Resume).await;
        house.request().await.1.reply.send(settled(1)).unwrap();
        assert_eq!(client.response().await, ("one".to_owned(), 1));
    });
}
