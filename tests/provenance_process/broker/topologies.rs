//! Durable queues: where they are configured, and where the broker refuses transient ones.

use orchestrator_harness::{Rabbit, eventually};

use super::{
    caller::Item,
    fixture::{Fixture, Home, missing},
    redeliveries::send,
};

/// Sends requests to durable queues; the program that declared them has ended.
pub(super) fn requests_for_later(home: &Home) -> Vec<Item> {
    let instance = home.start_with(&["provenance.amqp.topology=durable"]);
    home.serving();
    instance.kill_nine();
    let (caller, items) = send(&home.url);
    caller.end().expect("a connection");
    items
}

/// Starts the program without a topology, and waits until it has stored `items`.
pub(super) fn stores_requests(home: &Home, items: &[Item]) {
    let instance = home.start();
    eventually("all requests to be stored", || missing(&home.dsn, items) == Ok(0));
    assert!(instance.terminate().success(), "{}", home.env.base().log());
    let log = home.env.base().log();
    assert_eq!(log.matches("queues are declared durable").count(), 1, "{log}");
}

/// A broker of this machine has no such setting; `queues_are_durable_where_the_broker_refuses_transient_ones`
/// imitates one.
#[test]
fn a_broker_without_transient_queues_serves_clients_of_the_original() {
    if Rabbit::major_version() < 4 {
        return;
    }
    let rabbit = Rabbit::start_with("deprecated_features.permit.transient_nonexcl_queues = false\n");
    let fixture = Fixture::with_broker(rabbit, "denied", "with-path");
    let (home, rabbit) = (&fixture.home, &fixture.servers.rabbit);
    let refusals = || rabbit.log().matches("Feature `transient_nonexcl_queues` is deprecated").count();
    for declared in [true, false] {
        let before = refusals();
        let instance = home.start();
        let (caller, items) = send(&home.url);
        eventually("an answer for each", || caller.record.answers() == 20);
        assert_eq!(missing(&home.dsn, &items), Ok(0));
        caller.end().expect("a connection");
        assert!(instance.terminate().success(), "{}", home.env.base().log());
        // An existing queue is not declared again, so that is not refused.
        assert!((refusals() > before) == declared, "{}", rabbit.log());
    }
    let url = format!("provenance.amqp.url={}", rabbit.create_vhost("insisting"));
    let instance = home.start_with(&["provenance.amqp.topology=transient", &url]);
    eventually("the cause", || {
        let causes = home.env.base().causes("provenance");
        causes.iter().any(|cause| cause.help.contains("set provenance.amqp.topology = \"durable\""))
    });
    assert!(instance.terminate().success(), "{}", home.env.base().log());
}
