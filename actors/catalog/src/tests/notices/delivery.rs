//! Declarations at the broker, and delivery of notices.

use lapin::options::ExchangeDeclareOptions;
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::{Ermrest, Faktory};
use serde_json::json;

use super::fixture::*;
use crate::edge::notices::Notices;

#[test]
fn exchange_queue_and_consumer_match_the_contract() {
    let url = rabbit().create_vhost("flags");
    let (mut notices, spec) = at(&url);
    TestTree::run(spec, async |_tree| {
        wait_until_up(&mut notices).await;
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
        // A declaration with the server's flags succeeds; others fail.
        let publisher = Publisher::at(&url).await;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let refused = publisher.declare(durable).await.unwrap_err().to_string();
        assert!(refused.contains("PRECONDITION"), "{refused}");
    });
}

#[test]
fn each_handle_sees_every_notice() {
    let url = rabbit().create_vhost("counting");
    let (mut notices, spec) = at(&url);
    assert!(!notices.state().is_up);
    TestTree::run(spec, async |tree| {
        let publisher = Publisher::at(&url).await;
        assert_eq!(wait_until_up(&mut notices).await, 1, "a binding is a notice: whoever hears it looks");
        let mut other = notices.clone();
        for _ in 0..100 {
            publisher.publish().await;
        }
        tokio::join!(wait_for_count(&mut notices, 101), wait_for_count(&mut other, 101));
        assert_eq!((metric(&tree, "notices"), metric(&tree, "bindings")), (100, 1));
        let shown = link(&tree);
        assert_eq!((&*shown.kind, shown.state.name()), ("rabbitmq", "up"));
        assert!(!format!("{:?}", tree.snapshot()).contains("guest:guest"));
    });
    assert!(!notices.state().is_up, "a child that was stopped hears nothing");
}

/// Every write is followed by a notice or by a binding, after which the consumer polls.
#[test]
fn no_write_is_missed_between_binding_and_polling() {
    let url = rabbit().create_vhost("writing");
    let server = Ermrest::start(&["--amqp", &url]);
    for round in 0_u32..5 {
        let (mut notices, spec) = at(&url);
        TestTree::run(spec, async |_tree| {
            let rows =
                |first: u32| -> Vec<_> { (0..10).map(|n| json!({"id": round * 100 + first + n})).collect() };
            // Writes before, during and after the binding.
            server.insert("Foo", &rows(0).into(), "");
            let bound_at = wait_until_up(&mut notices).await;
            let seen = server.rows("Foo").len();
            assert!(seen >= (round * 20 + 10) as usize, "what was written before is seen by looking");
            server.insert("Foo", &rows(50).into(), "");
            // The notice of the first write may come after the binding, too.
            while notices.mark_seen().count <= bound_at {
                notices.changed().await;
            }
            assert_eq!(
                server.rows("Foo").len(),
                (round * 20 + 20) as usize,
                "the notice comes after the write"
            );
        });
    }
}

#[test]
fn a_broker_with_tls_is_used_if_its_certificate_is_valid() {
    let plain = rabbit().create_vhost("secured");
    let url = rabbit().tls_url_of("secured");
    let authority = Faktory::ca_file();
    let (mut notices, spec) = with(Broker::with_authorities(&url, "test", Some(&authority)).unwrap());
    TestTree::run(spec, async |_tree| {
        wait_until_up(&mut notices).await;
        Publisher::at(&plain).await.publish().await;
        wait_for_count(&mut notices, 2).await;
    });
    // The public authorities did not sign the certificate, and it is for another name.
    let by_address = url.replace("localhost", "127.0.0.1");
    for broker in [
        Broker::new(&url, "test").unwrap(),
        Broker::with_authorities(&by_address, "test", Some(&authority)).unwrap(),
    ] {
        let (notices, spec) = with(broker);
        TestTree::run(spec, async |tree| {
            let reason = || link(&tree).reason.unwrap_or_default();
            eventually("the link is down", || reason().contains("TLS: ")).await;
            assert!(reason().contains("certificate"), "{}", reason());
            assert!(!notices.state().is_up);
        });
    }
}

#[test]
fn without_a_broker_no_notice_arrives() {
    actix_rt::System::new().block_on(async {
        let mut notices = Notices::none();
        assert!(!notices.state().is_up);
        tokio::select! {
            biased;
            state = notices.changed() => panic!("{state:?}"),
            () = tokio::task::yield_now() => {}
        }
    });
}
