//! What is declared, and what is heard.

use lapin::options::ExchangeDeclareOptions;
use orchestrator_catalog::edge::notices::{Notices, RETRY};
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::{Ermrest, Faktory};
use serde_json::json;

use super::fixture::*;

#[test]
fn exchange_queue_and_consumer_are_those_of_the_contract() {
    let url = rabbit().create_vhost("flags");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |_tree| {
        bound(&mut notices).await;
        let ctl = |what: &[&str]| {
            let said = rabbit().ctl(&[&["--vhost", "flags", "--no-table-headers"], what].concat());
            said.lines()
                .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        let exchanges = ctl(&["list_exchanges", "name", "type", "durable", "auto_delete", "internal"]);
        assert!(
            exchanges.contains(
                &["ermrest_changes", "fanout", "false", "false", "false"].map(str::to_owned).to_vec()
            ),
            "{exchanges:?}"
        );
        let queues = ctl(&["list_queues", "name", "exclusive", "durable", "auto_delete"]);
        let [queue] = &queues[..] else { panic!("one queue: {queues:?}") };
        assert!(queue[0].starts_with("amq.gen-"), "{queue:?}");
        assert_eq!(queue[1..], ["true", "false", "false"]);
        let bindings = ctl(&["list_bindings", "source_name", "destination_name", "routing_key"]);
        let ours = ["ermrest_changes", &*queue[0], &*queue[0]].map(str::to_owned).to_vec();
        assert!(bindings.contains(&ours), "{bindings:?}");
        let consumers = ctl(&["list_consumers", "queue_name", "ack_required", "active"]);
        assert_eq!(consumers, [[&*queue[0], "false", "true"]]);
        // Whoever declares it as the server does is welcome, and nobody else.
        let teller = Teller::at(&url).await;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let refused = teller.declare(durable).await.unwrap_err().to_string();
        assert!(refused.contains("PRECONDITION"), "{refused}");
    });
}

#[test]
fn every_notice_counts_and_each_listener_hears_all() {
    let url = rabbit().create_vhost("counting");
    let (mut notices, spec) = at(&url);
    assert!(!notices.heard().is_up);
    TestTree::run(spec, async |tree| {
        let teller = Teller::at(&url).await;
        assert_eq!(bound(&mut notices).await, 1, "a binding is a notice: whoever hears it looks");
        let mut other = notices.clone();
        for _ in 0..100 {
            teller.tell().await;
        }
        tokio::join!(reaches(&mut notices, 101), reaches(&mut other, 101));
        assert_eq!((metric(&tree, "notices"), metric(&tree, "bindings")), (100, 1));
        let shown = link(&tree);
        assert_eq!((&*shown.kind, &*shown.state), ("rabbitmq", "up"));
        assert!(!format!("{:?}", tree.snapshot()).contains("guest:guest"));
    });
    assert!(!notices.heard().is_up, "a child that was stopped hears nothing");
}

/// Whatever is written, a listener is told of it by a notice, or was bound, and so looks, later.
#[test]
fn no_write_falls_between_binding_and_looking() {
    let url = rabbit().create_vhost("writing");
    let server = Ermrest::start(&["--amqp", &url]);
    for round in 0_u32..5 {
        let (mut notices, spec) = at(&url);
        TestTree::run(spec, async |_tree| {
            let rows =
                |first: u32| -> Vec<_> { (0..10).map(|n| json!({"id": round * 100 + first + n})).collect() };
            // Some before the binding, some while it comes, some after it.
            server.insert("Foo", &rows(0).into(), "");
            let bound_at = bound(&mut notices).await;
            let seen = server.rows("Foo").len();
            assert!(seen >= (round * 20 + 10) as usize, "what was written before is seen by looking");
            server.insert("Foo", &rows(50).into(), "");
            reaches(&mut notices, bound_at + 1).await;
            assert_eq!(
                server.rows("Foo").len(),
                (round * 20 + 20) as usize,
                "the notice comes after the write"
            );
        });
    }
}

#[test]
fn a_secured_broker_is_listened_to_if_it_is_the_right_one() {
    let plain = rabbit().create_vhost("secured");
    let url = rabbit().tls_url_of("secured");
    let authority = Faktory::ca_file();
    let (mut notices, spec) = with(Broker::with_authorities(&url, "test", Some(&authority)).unwrap(), RETRY);
    TestTree::run(spec, async |_tree| {
        bound(&mut notices).await;
        Teller::at(&plain).await.tell().await;
        reaches(&mut notices, 2).await;
    });
    // The public authorities did not sign it; and it is another name's.
    let by_address = url.replace("localhost", "127.0.0.1");
    for broker in [
        Broker::new(&url, "test").unwrap(),
        Broker::with_authorities(&by_address, "test", Some(&authority)).unwrap(),
    ] {
        let (notices, spec) = with(broker, RETRY);
        TestTree::run(spec, async |tree| {
            let reason = || link(&tree).reason.unwrap_or_default();
            eventually("the link is down", || reason().contains("TLS: ")).await;
            assert!(reason().contains("certificate"), "{}", reason());
            assert!(!notices.heard().is_up);
        });
    }
}

#[test]
fn without_a_broker_nothing_is_ever_heard() {
    actix_rt::System::new().block_on(async {
        let mut notices = Notices::none();
        assert!(!notices.heard().is_up);
        tokio::select! {
            biased;
            heard = notices.changed() => panic!("{heard:?}"),
            () = tokio::task::yield_now() => {}
        }
    });
}
