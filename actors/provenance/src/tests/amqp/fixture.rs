//! Test fixture: one broker for all tests with a virtual host each, and a consumer. The client
//! behaves as the original's: no confirms, not mandatory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, message::Delivery, options::*,
    types::FieldTable,
};
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::Rabbit;
use orchestrator_supervise::{ChildRef, ChildSpec, Strategy, SupervisorSpec, Tree};

use crate::{
    edge::amqp::{ConsumerOptions, ConsumerReadiness, Sink, Topology, factory},
    messages::{Outcome, Request},
    method::Method,
    policy::{self, Range, Worker},
    row::{Rows, Sha1Git},
    wire,
};

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Broker of all tests that do not stop it.
pub(crate) fn rabbit() -> &'static Rabbit {
    Rabbit::shared()
}

/// Requests that reach the workers, and the readiness of the consumers.
pub(crate) struct Fixture {
    pub(crate) requests: Receiver<(Worker, Request)>,
    pub(crate) readiness: Arc<ConsumerReadiness>,
}

/// The only child, `amqp`, passes all requests to `sink`.
pub(crate) fn with_sink(
    url: &str,
    workers: Vec<Worker>,
    sink: Sink,
) -> (Arc<ConsumerReadiness>, SupervisorSpec) {
    with_topology(url, workers, None, sink)
}

/// Same as [`with_sink`], with another topology.
pub(crate) fn with_topology(
    url: &str,
    workers: Vec<Worker>,
    topology: Option<Topology>,
    sink: Sink,
) -> (Arc<ConsumerReadiness>, SupervisorSpec) {
    let readiness = Arc::new(ConsumerReadiness::new(workers.iter().copied()));
    let consumer_options = ConsumerOptions {
        workers,
        topology,
        prefetch: 100,
        drain: Duration::from_secs(4),
        sink,
        readiness: readiness.clone(),
        writer: ChildRef::default(),
    };
    let broker = Broker::new(url, "test").unwrap();
    let child = ChildSpec::worker("amqp", factory(broker, consumer_options)).pausable();
    (readiness, SupervisorSpec::new(Strategy::OneForOne).child(child))
}

/// The test answers the requests.
pub(crate) fn with_manual_replies(url: &str, workers: Vec<Worker>) -> (Fixture, SupervisorSpec) {
    let (sender, requests): (Sender<(Worker, Request)>, _) = channel();
    let sender = Mutex::new(sender);
    let sink: Sink = Arc::new(move |worker, request| {
        let sent = sender.lock().unwrap().send((worker, request));
        sent.map_err(|refused| refused.0.1)
    });
    let (readiness, spec) = with_sink(url, workers, sink);
    (Fixture { requests, readiness }, spec)
}

/// Reports all rows as stored.
pub(crate) fn store_all() -> Sink {
    Arc::new(|_, Request { rows, reply }| {
        let _ = reply.send(Outcome { stored: rows.len() as u64, refused: Vec::new() });
        Ok(())
    })
}

impl Fixture {
    pub(crate) async fn request(&self) -> (Worker, Request) {
        let mut found = None;
        eventually("a request reaches its worker", || {
            found = self.requests.try_recv().ok();
            found.is_some()
        })
        .await;
        found.unwrap()
    }
}

/// Worker of `content` and `range`.
pub(crate) fn worker(range: u8) -> Worker {
    Worker { exchange: policy::exchange(Method::ContentAdd), range: Range::ALL[usize::from(range)] }
}

pub(crate) fn settled(stored: u64) -> Outcome {
    Outcome { stored, refused: Vec::new() }
}

/// Contents without dates.
pub(crate) fn contents(count: u8) -> Vec<u8> {
    let rows = Rows::Contents((0..count).map(|n| (Sha1Git([n; 20]), None)).collect());
    wire::encode(&rows).to_vec()
}

/// Client that behaves as the original's.
pub(crate) struct Client {
    pub(crate) channel: Channel,
    responses: Consumer,
    reply_to: String,
    _connection: Connection,
}

impl Client {
    pub(crate) async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("".into(), exclusive, FieldTable::default()).await.unwrap();
        let reply_to = queue.name().as_str().to_owned();
        let options = BasicConsumeOptions::default();
        let responses = channel
            .basic_consume(queue.name().clone(), "".into(), options, FieldTable::default())
            .await
            .unwrap();
        Self { channel, responses, reply_to, _connection: connection }
    }

    pub(crate) async fn send(&self, key: &str, id: &str, body: &[u8]) {
        let exchange = key_exchange(key);
        let properties = BasicProperties::default()
            .with_content_type("application/msgpack".into())
            .with_correlation_id(id.into())
            .with_reply_to(self.reply_to.as_str().into());
        let options = BasicPublishOptions::default();
        let publish = self.channel.basic_publish(exchange.into(), key.into(), options, body, properties);
        publish.await.unwrap().await.unwrap();
    }

    /// Correlation id and count of the next response.
    pub(crate) async fn response(&mut self) -> (String, u64) {
        let next = tokio::time::timeout(DEADLINE, self.responses.next()).await;
        let delivery = next.expect("a response in time").unwrap().unwrap();
        delivery.ack(BasicAckOptions::default()).await.unwrap();
        let properties = &delivery.properties;
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/msgpack");
        let id = properties.correlation_id().as_ref().unwrap().as_str().to_owned();
        (id, wire::decode_ack(&delivery.data).unwrap())
    }

    /// Gets a message from a queue, if there is one.
    pub(crate) async fn get(&self, queue: &str) -> Option<Delivery> {
        let got = self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap();
        got.map(|message| message.delivery)
    }
}

fn key_exchange(key: &str) -> &'static str {
    let is_method = |method: &Method| key.starts_with(&format!("{method}."));
    policy::exchange(Method::ALL.into_iter().find(is_method).expect("a key of a method")).name()
}

/// Waits for a condition, up to the slow start of a broker on a busy machine.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(std::time::Instant::now() < give_up, "gave up waiting until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn all_consumed(readiness: &ConsumerReadiness) {
    eventually("all queues are consumed", || readiness.missing() == 0).await;
}

pub(crate) fn metric(tree: &Tree, name: &str) -> i64 {
    let node = tree.node("amqp").expect("the child is in the tree");
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

/// The link as JSON.
pub(crate) fn link(tree: &Tree) -> String {
    let node = tree.node("amqp").expect("the child is in the tree");
    serde_json::to_string(&node.link).expect("JSON")
}

/// Parses a table of rabbitmqctl: its columns by the first one.
pub(crate) fn table(text: &str) -> HashMap<String, Vec<String>> {
    let rows = text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.map(|row| (row[0].clone(), row)).collect()
}
