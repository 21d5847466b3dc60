//! A source protocol defined outside the crate, and its environment: a private Redis, the
//! controller's part, and workers on the `zeromq` crate.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use orchestrator_harness::{Controller, Redis};
use orchestrator_observe::LinkStatus;
use orchestrator_subsystem::Address;
use orchestrator_supervise::{
    Limits, Strategy, SupervisorSpec, Tree,
    testing::{TestTree, eventually},
};
use serde_json::Value;
use uuid::Uuid;
use zeromq::{DealerSocket, Socket, SocketOptions, SocketRecv, SocketSend};

use crate::{
    IngesterConfig, StreamConfig, child_spec_with,
    item::Item,
    source::{Items, Registry, Source, SourceCx, SourceError},
};

/// Behaviour of a run.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// Gives frames with these numbers (None: without one), then waits.
    Waits(Vec<Option<u64>>),
    /// The stream ends.
    Ends,
    /// The run fails.
    Fails,
    /// The run panics.
    Panics,
}

/// Counters of all runs.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) script: Mutex<Vec<Script>>,
    pub(crate) begun: AtomicUsize,
    pub(crate) finished: AtomicUsize,
    pub(crate) stopped: AtomicUsize,
}

/// Runs, and whether items have the numbers of their events.
struct Toy(Arc<Runs>, bool);

impl Source for Toy {
    fn run(&mut self, cx: SourceCx) -> Items {
        self.0.begun.fetch_add(1, SeqCst);
        cx.link.up();
        let script = {
            let mut scripts = self.0.script.lock().expect("no panic under it");
            if scripts.len() > 1 { scripts.remove(0) } else { scripts[0].clone() }
        };
        match script {
            Script::Waits(numbers) => {
                let name = cx.stream.clone();
                let item = move |number: Option<u64>| {
                    let text = format!("{name} {}", number.map_or("start".to_owned(), |n| n.to_string()));
                    Ok(Item { typ: "TOY".into(), frames: vec![Bytes::from(text)].into(), number })
                };
                stream::iter(numbers).map(item).chain(stream::pending()).boxed_local()
            }
            Script::Ends => stream::empty().boxed_local(),
            Script::Fails => {
                stream::iter([Err(SourceError("the toy is broken: mend it".to_owned()))]).boxed_local()
            }
            Script::Panics => stream::once(async { panic!("the toy fell down") }).boxed_local(),
        }
    }

    fn numbers_events(&self) -> bool {
        self.1
    }

    fn finish(&mut self) {
        self.0.finished.fetch_add(1, SeqCst);
    }

    fn stop(&mut self) {
        self.0.stopped.fetch_add(1, SeqCst);
    }
}

/// An ingester `toys` with Redis and a tree.
pub(crate) struct Fixture {
    pub(crate) redis: Redis,
    pub(crate) runs: Arc<Runs>,
    pub(crate) port: u16,
    pub(crate) tree: Tree,
}

impl Fixture {
    /// Runs `test` on an ingester `toys` with these streams. Each run plays the next script; the
    /// last one is repeated.
    pub(crate) fn run<Fut: Future<Output = ()>>(
        streams: &[&str],
        scripts: Vec<Script>,
        change: impl FnOnce(&mut IngesterConfig),
        test: impl FnOnce(Fixture) -> Fut,
    ) -> Arc<Runs> {
        let runs = Arc::new(Runs { script: Mutex::new(scripts), ..Runs::default() });
        let redis = Redis::start();
        let port = orchestrator_harness::free_port();
        let stream = |name: &&str| StreamConfig {
            name: (*name).to_owned(),
            source: "toy".to_owned(),
            ..StreamConfig::default()
        };
        let mut config = IngesterConfig {
            name: "toys".to_owned(),
            listen: format!("127.0.0.1:{port}"),
            redis_url: Address::new(redis.url()),
            stream: streams.iter().map(stream).collect(),
            ..IngesterConfig::default()
        };
        change(&mut config);
        let shared = runs.clone();
        let registry = [("toy", false), ("numbered_toy", true)].into_iter().fold(
            Registry::standard(),
            |registry, (name, numbered)| {
                let shared = shared.clone();
                registry.with(name, move |_| Ok(Box::new(Toy(shared.clone(), numbered))))
            },
        );
        let ingester = child_spec_with(&[config], &registry).expect("a valid configuration");
        let spec = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).child(ingester);
        let handed = runs.clone();
        TestTree::run(spec, |tree| {
            let playground = Fixture { redis, runs: handed, port, tree };
            async move {
                playground.registered().await;
                test(playground).await;
            }
        });
        runs
    }

    async fn registered(&self) {
        eventually("the ingester is in Redis", || self.ingester_state().is_some()).await;
        // The first read of the updates is over; entries written from now on are read.
        eventually("Redis is up", || {
            self.tree
                .node("ingester/toys/redis")
                .and_then(|node| node.link)
                .is_some_and(|link| link.state == LinkStatus::Up)
        })
        .await;
    }

    pub(crate) fn controller(&self) -> Controller<'_> {
        Controller::new(&self.redis, "toys")
    }

    /// The published configuration key.
    pub(crate) fn ingester_state(&self) -> Option<Value> {
        self.controller().ingester_state()
    }

    /// Starts a mapping and waits until it is published.
    pub(crate) async fn begin(&self, streams: &[&str]) -> Uuid {
        let uuid = Uuid::new_v4();
        self.controller().publish_update(&Controller::update_json(&uuid.to_string(), streams, false));
        self.taken(uuid).await;
        uuid
    }

    /// Waits until the ingester publishes `uuid`.
    pub(crate) async fn taken(&self, uuid: Uuid) {
        eventually("the mapping is taken", || self.controller().is_active(&uuid.to_string())).await;
    }

    /// Assigns events: number, and the workers of each stream.
    pub(crate) fn assign(&self, mapping: Uuid, events: &[(u64, Value)]) {
        self.controller().assign_events(&mapping.to_string(), events);
    }

    /// Finishes the mapping and waits for the answer.
    pub(crate) async fn finish(&self, mapping: Uuid) {
        let mapping = mapping.to_string();
        self.controller().publish_update(&Controller::update_json(&mapping, &[], true));
        eventually("finished is answered", || self.controller().is_finished(&mapping)).await;
    }

    /// A worker that has pinged.
    pub(crate) async fn worker(&self, name: &str) -> Worker {
        let mut options = SocketOptions::default();
        options.peer_identity(name.parse().expect("an identity"));
        let mut socket = DealerSocket::with_options(options);
        socket.connect(&format!("tcp://127.0.0.1:{}", self.port)).await.expect("the ingester listens");
        socket.send(Uuid::new_v4().as_bytes().to_vec().into()).await.expect("a ping");
        Worker { socket }
    }
}

/// A worker.
pub(crate) struct Worker {
    socket: DealerSocket,
}

impl Worker {
    /// Next message: its event, and the text of each part by stream.
    pub(crate) async fn event(&mut self) -> (u64, Vec<(String, Vec<String>)>) {
        let (header, mut parts) = self.message().await;
        let streams = header["streams"].as_object().expect("streams").iter().map(|(stream, received)| {
            assert_eq!(received["typ"], "TOY");
            let length = received["length"].as_u64().expect("a length") as usize;
            let texts = parts.by_ref().take(length).map(|part| String::from_utf8_lossy(&part).into_owned());
            (stream.clone(), texts.collect())
        });
        let event = (header["event_number"].as_u64().expect("a number"), streams.collect());
        assert_eq!(parts.next(), None, "more parts than the header tells");
        event
    }

    /// Time in the header of the next message.
    pub(crate) async fn created_at(&mut self) -> jiff::Timestamp {
        let text = self.message().await.0["created_at"].clone();
        text.as_str().and_then(|text| text.parse().ok()).expect("a time")
    }

    async fn message(&mut self) -> (Value, impl Iterator<Item = bytes::Bytes>) {
        let received = tokio::time::timeout(Duration::from_secs(20), self.socket.recv()).await;
        let mut parts = received.expect("a message in time").expect("no error").into_vec().into_iter();
        let header = serde_json::from_slice(&parts.next().expect("a header")).expect("JSON");
        (header, parts)
    }

    /// Next message, of one stream with at most one part: its event and the part's text.
    pub(crate) async fn single(&mut self) -> (u64, String) {
        let (event, mut streams) = self.event().await;
        assert_eq!(streams.len(), 1);
        (event, streams.remove(0).1.concat())
    }
}
