//! The client's side, with the consumer on the other.

use std::time::Duration;

use futures_util::future::join_all;
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
use orchestrator_provenance::{
    call::CallError,
    edge::amqp::{Call, Outgoing, Patience, Publication, Topology, client},
    policy::{self, Worker},
};
use orchestrator_supervise::{
    ChildSpec, Outbox, Pending, Strategy, SupervisorSpec, Tree, inbox, reply, testing::TestTree,
};

use super::house::*;

type Told = Pending<Result<u64, CallError>>;

/// `spec` with a child `client`.
pub(crate) fn with_client(
    url: &str,
    publication: Publication,
    spec: SupervisorSpec,
) -> (Outbox<Call>, SupervisorSpec) {
    let (outbox, calls) = inbox(256);
    let broker = Broker::new(url, "test client").unwrap();
    (outbox, spec.child(ChildSpec::worker("client", client(broker, publication, &calls))))
}

fn nobody() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne)
}

/// A call with a message of `rows` contents to each of `ranges`.
pub(crate) fn call(ranges: &[u8], rows: u8) -> (Call, Told) {
    let (reply, told) = reply();
    let message = |&range: &u8| Outgoing {
        exchange: worker(range).exchange,
        routing_key: format!("content_add.unknown.{range:x}"),
        body: contents(rows).into(),
        items: rows.into(),
    };
    (Call { messages: ranges.iter().map(message).collect(), reply }, told)
}

pub(crate) async fn told(told: Told) -> Result<u64, CallError> {
    tokio::time::timeout(DEADLINE, told).await.expect("an end in time").expect("an end")
}

pub(crate) fn client_figure(tree: &Tree, name: &str) -> i64 {
    let node = tree.node("client").expect("the child is in the tree");
    node.figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
}

#[test]
fn a_request_that_no_queue_takes_fails_at_once_and_its_neighbours_do_not() {
    let url = rabbit().vhost("unroutable");
    let (presence, spec) = with_sink(&url, vec![worker(1)], store_all());
    let (calls, spec) = with_client(&url, Publication::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&presence).await;
        let (half, half_told) = call(&[1, 2], 3);
        let (whole, whole_told) = call(&[1, 1, 1], 3);
        calls.tell(half).unwrap();
        calls.tell(whole).unwrap();
        let error = told(half_told).await.unwrap_err();
        assert_eq!(error, CallError::Unroutable("content_add.unknown.2".to_owned()));
        assert_eq!(told(whole_told).await, Ok(9));
        assert_eq!(client_figure(&tree, "unroutable"), 1);
    });
}

#[test]
fn a_call_without_a_response_times_out_and_the_client_stays_usable() {
    let url = rabbit().vhost("silent");
    let (house, spec) = by_hand(&url, vec![worker(1)]);
    let patience = Patience {
        batch_size: 100,
        wait_per_batch: Duration::from_millis(1),
        wait_min: Duration::from_millis(200),
    };
    let (calls, spec) = with_client(&url, Publication { patience, ..Publication::default() }, spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let (silent, silent_told) = call(&[1], 2);
        calls.tell(silent).unwrap();
        let (_, held) = house.request().await;
        let error = told(silent_told).await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { received: 0, expected: 2, .. }), "{error}");
        held.reply.send(settled(2)).unwrap();
        // The late response is passed over; more than was sent is no success.
        eventually("the late response came", || client_figure(&tree, "responses") == 1).await;
        let (over, over_told) = call(&[1], 2);
        calls.tell(over).unwrap();
        house.request().await.1.reply.send(settled(3)).unwrap();
        assert_eq!(told(over_told).await, Err(CallError::TooManyAcks { received: 3, expected: 2 }));
    });
}

#[test]
fn a_connection_lost_in_mid_call_costs_time_only() {
    let url = rabbit().vhost("lost");
    let (house, spec) = by_hand(&url, vec![worker(1), worker(2)]);
    let (calls, spec) = with_client(&url, Publication::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let (lost, lost_told) = call(&[1, 2], 2);
        calls.tell(lost).unwrap();
        let (first, second) = (house.request().await.1, house.request().await.1);
        first.reply.send(settled(2)).unwrap();
        eventually("one response came", || client_figure(&tree, "responses") == 1).await;
        rabbit().ctl(&["close_all_connections", "--vhost", "lost", "test"]);
        eventually("both noticed", || second.reply.is_closed() && client_figure(&tree, "resent") == 1).await;
        // What was not acknowledged comes again, and so does all of the call, under a new correlation id.
        for _ in 0..3 {
            let (_, request) = house.request().await;
            request.reply.send(settled(2)).unwrap();
        }
        assert_eq!(told(lost_told).await, Ok(4));
        assert_eq!(tree.node("client").unwrap().incarnation, 1);
    });
}

#[test]
fn a_call_outlives_the_broker() {
    let mut rabbit = Rabbit::start();
    let url = rabbit.url();
    let (house, spec) = by_hand(&url, vec![worker(1)]);
    let (calls, spec) = with_client(&url, Publication::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&house.presence).await;
        let (lost, lost_told) = call(&[1], 2);
        calls.tell(lost).unwrap();
        let _unanswered = house.request().await;
        rabbit.kill_nine();
        eventually("the link is down", || link(&tree).contains("down")).await;
        rabbit.start_again();
        // The queues died with the broker; whoever is back first, client or servers, the call is answered.
        let again = async {
            loop {
                if let Ok((_, request)) = house.requests.try_recv() {
                    request.reply.send(settled(2)).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let end = tokio::select! {
            end = told(lost_told) => end,
            () = again => unreachable!("it goes on for ever"),
        };
        assert_eq!(end, Ok(2));
        all_consumed(&house.presence).await;
    });
}

#[test]
fn a_stop_fails_what_is_not_answered_in_time() {
    let url = rabbit().vhost("client_stop");
    let (house, spec) = by_hand(&url, vec![worker(1)]);
    let publication = Publication { drain: Duration::from_millis(100), ..Publication::default() };
    let (calls, spec) = with_client(&url, publication, spec);
    let mut end = None;
    TestTree::run(spec, async |_tree| {
        all_consumed(&house.presence).await;
        let (open, open_told) = call(&[1], 2);
        calls.tell(open).unwrap();
        end = Some((house.request().await, open_told));
    });
    assert_eq!(end.unwrap().1.try_recv(), Ok(Some(Err(CallError::Stopping))));
}

/// All workers, many calls at a time. The rate is printed, not judged.
#[test]
fn many_calls_at_a_time_are_all_answered_exactly() {
    let url = rabbit().vhost("many");
    let (presence, spec) = with_sink(&url, Worker::all().collect(), store_all());
    let (calls, spec) = with_client(&url, Publication::default(), spec);
    TestTree::run(spec, async |tree| {
        all_consumed(&presence).await;
        let started = std::time::Instant::now();
        let everywhere: Vec<String> =
            Worker::all().flat_map(|worker| policy::binding_keys(worker.exchange, worker.range)).collect();
        assert_eq!(everywhere.len(), 160);
        let ranges: Vec<u8> = (0..16).collect();
        let ends = join_all((0..200).map(async |_| {
            let (call, end) = call(&ranges, 100);
            calls.send(call).await.unwrap();
            told(end).await
        }))
        .await;
        assert!(ends.iter().all(|end| *end == Ok(1600)), "{ends:?}");
        let took = started.elapsed();
        let messages = figure(&tree, "acked");
        let rate = messages as f64 / took.as_secs_f64();
        eprintln!(
            "{messages} messages of 100 rows published, stored, acknowledged and answered in {took:?}: {rate:.0}/s"
        );
        assert_eq!((messages, figure(&tree, "redelivered")), (3200, 0));
        eventually("the figures are told", || {
            figure(&tree, "responses") == 3200
                && (client_figure(&tree, "open"), client_figure(&tree, "in_flight")) == (0, 0)
        })
        .await;
    });
}

#[test]
fn a_client_starts_without_a_broker_and_its_calls_time_out() {
    let patience =
        Patience { batch_size: 1, wait_per_batch: Duration::ZERO, wait_min: Duration::from_millis(50) };
    let publication = Publication { patience, ..Publication::default() };
    let (calls, spec) = with_client("amqp://127.0.0.1:1/%2f", publication, nobody());
    TestTree::run(spec, async |_tree| {
        let (open, open_told) = call(&[1], 2);
        calls.tell(open).unwrap();
        assert!(matches!(told(open_told).await, Err(CallError::TimedOut { .. })));
    });
}

#[test]
fn the_quorum_topology_works_and_a_server_of_the_other_one_says_what_is_wrong() {
    let url = rabbit().vhost("quorum");
    let (presence, spec) = with_topology(&url, vec![worker(1)], Topology::Quorum, store_all());
    let publication = Publication { topology: Topology::Quorum, ..Publication::default() };
    let (calls, spec) = with_client(&url, publication, spec);
    TestTree::run(spec, async |_tree| {
        all_consumed(&presence).await;
        let (whole, whole_told) = call(&[1, 1], 3);
        calls.tell(whole).unwrap();
        assert_eq!(told(whole_told).await, Ok(6));
        let queues =
            rabbit().ctl(&["list_queues", "-p", "quorum", "--no-table-headers", "name", "type", "durable"]);
        assert!(queues.contains("content_add.unknown.1\tquorum\ttrue"), "{queues}");
    });
    let (_, spec) = with_sink(&url, vec![worker(1)], store_all());
    TestTree::run(spec, async |tree| {
        eventually("the link is down", || link(&tree).contains("down")).await;
        let link = link(&tree);
        assert!(link.contains("PRECONDITION_FAILED") && link.contains("setting topology"), "{link}");
    });
}
