//! The actor in a tree: over the stand-in for MongoDB, with a queue in memory whose jobs are done as soon as they are pushed.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use mongodb::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};
use orchestrator_harness::MongoDb;
use orchestrator_producer::{
    Compat, MongoConfig, ProducerConfig,
    pair::Pair,
    producer::{Desk, factory},
    queue::{Queue, QueueError, Stamp},
    reading::Reading,
};
use orchestrator_supervise::{
    ChildSpec, ConsoleRequest, Origin, Restart, Strategy, SupervisorSpec, Tree, Verb, mailbox,
    testing::{TestTree, eventually},
};
use serde_json::{Value, json};

const PRODUCER: &str = "test/producer";

/// A queue that all incarnations share.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    pushed: Vec<Pair>,
    dead: u64,
    /// Chunks that are still let through; then the queue is away.
    chunks: Option<usize>,
}

impl Queue for Shared {
    async fn read(&mut self) -> Result<Reading, QueueError> {
        let contents = self.0.lock().unwrap();
        let processed = contents.pushed.len() as u64;
        Ok(Reading { processed, dead: contents.dead, ..Reading::default() })
    }

    async fn push(&mut self, pairs: &[Pair], _: Option<Stamp>) -> Result<(), QueueError> {
        let mut contents = self.0.lock().unwrap();
        if contents.chunks == Some(0) {
            return Err(QueueError::Away("the queue is away".to_owned()));
        }
        contents.chunks = contents.chunks.map(|chunks| chunks - 1);
        contents.pushed.extend(pairs);
        Ok(())
    }
}

impl Shared {
    fn pushed(&self) -> usize {
        self.0.lock().unwrap().pushed.len()
    }

    fn let_through(&self, chunks: Option<usize>) {
        self.0.lock().unwrap().chunks = chunks;
    }

    /// All of one stencil of 20 by 20 pages, each once.
    fn assert_all_once(&self) {
        let contents = self.0.lock().unwrap();
        let distinct: BTreeSet<&Pair> = contents.pushed.iter().collect();
        assert_eq!((contents.pushed.len(), distinct.len()), (400, 400));
    }
}

async fn stencils(server: &MongoDb) -> Collection<Document> {
    let uri = format!("{}/?serverSelectionTimeoutMS=20000", server.uri());
    Client::with_uri_str(uri).await.unwrap().database("tanglenomicon").collection("arborescent_stencils")
}

async fn completed(server: &MongoDb) -> i32 {
    let config = stencils(server).await.find_one(doc! { "_id": "config" }).await.unwrap().unwrap();
    config.get_i32("current_completed_tcn").unwrap()
}

/// TCN 3 of 4 is complete, and one stencil, 4 = 2 + 2, over 20 tangles.
async fn fill(server: &MongoDb) {
    let stencils = stencils(server).await;
    let stencil = doc! { "_id": ObjectId::from_bytes([1; 12]), "TCN": 4, "rootstock_tcn": 2, "scion_tcn": 2, "state": 0 };
    let config = doc! { "_id": "config", "current_completed_tcn": 3, "max_tcn": 4 };
    stencils.insert_many([stencil, config]).await.unwrap();
    let tangles: Vec<Document> = (0..20).map(|_| doc! { "TCN": 2, "is_good": true }).collect();
    stencils
        .client()
        .database("tanglenomicon")
        .collection("arborescent_tangles")
        .insert_many(tangles)
        .await
        .unwrap();
}

fn config(server: &MongoDb) -> ProducerConfig {
    let uri = format!("{}/?serverSelectionTimeoutMS=200", server.uri());
    ProducerConfig {
        page_size: 1,
        chunk: 10,
        poll_ms: 10,
        until_done: true,
        mongodb: MongoConfig { uri, ..MongoConfig::default() },
        ..ProducerConfig::default()
    }
}

fn spec(config: &ProducerConfig, queue: &Shared) -> SupervisorSpec {
    let (mailbox, slot) = mailbox(16);
    let queue = queue.clone();
    let factory = factory(config, "arborescent", slot, &Desk::new(), move |_| queue.clone());
    let child =
        ChildSpec::worker("producer", factory).restart(Restart::Transient).console(mailbox.recipient());
    SupervisorSpec::new(Strategy::OneForOne).child(child)
}

async fn ask(tree: &Tree, verb: &str) -> Value {
    let request = ConsoleRequest { verb: verb.to_owned(), args: Value::Null };
    tree.console(PRODUCER, request).await.unwrap().unwrap()
}

fn state(tree: &Tree) -> String {
    tree.node(PRODUCER).unwrap().state
}

fn figure(tree: &Tree, name: &str) -> i64 {
    let figures = tree.node(PRODUCER).unwrap().figures;
    figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
}

/// Runs a test on the tree of `config`, made of `server`.
fn run<Fut: Future<Output = ()>>(
    change: impl FnOnce(&mut ProducerConfig),
    test: impl FnOnce(Tree, MongoDb, Shared) -> Fut,
) {
    let server = MongoDb::start();
    actix_rt::System::new().block_on(fill(&server));
    let queue = Shared::default();
    // Nothing leaves before the test wants it.
    queue.let_through(Some(0));
    let mut config = config(&server);
    change(&mut config);
    TestTree::run(spec(&config, &queue), |tree| test(tree, server, queue));
}

#[test]
fn all_is_pushed_once_and_it_ends_well() {
    run(
        |_| {},
        |tree, server, queue| async move {
            queue.let_through(Some(5));
            eventually("some jobs are pushed", || queue.pushed() == 50).await;
            let status = ask(&tree, "status").await;
            assert_eq!((&status["phase"], &status["total"]), (&json!("pushing"), &json!(400)), "{status}");
            assert_eq!(status["stencil"], "stencil 010101010101010101010101 (TCN 4 = 2 + 2)");
            eventually("the queue is told to be away", || {
                tree.node(PRODUCER).is_some() && figure(&tree, "retries") > 0
            })
            .await;
            assert_eq!(ask(&tree, "status").await["away"], json!({ "queue": "the queue is away" }));
            queue.let_through(None);
            eventually("all is done", || state(&tree) == "stopped").await;
            queue.assert_all_once();
            assert_eq!((figure(&tree, "pushed"), figure(&tree, "tcn")), (400, 4));
            assert_eq!(completed(&server).await, 4);
            let node = tree.node(PRODUCER).unwrap();
            assert_eq!((node.restarts, node.last_exit.unwrap().kind.as_str()), (0, "normal"));
        },
    );
}

#[test]
fn a_restart_in_the_middle_repeats_nothing() {
    run(
        |_| {},
        |tree, server, queue| async move {
            let _server = server;
            let origin = Origin { by: "test".to_owned(), reason: "to see".to_owned() };
            for chunks in [3, 7, 12] {
                queue.let_through(Some(chunks));
                let wanted = queue.pushed() + chunks * 10;
                eventually("some jobs are pushed", || queue.pushed() == wanted).await;
                tree.command(PRODUCER, Verb::Restart, &origin).await.unwrap();
            }
            queue.let_through(None);
            eventually("all is done", || state(&tree) == "stopped").await;
            queue.assert_all_once();
        },
    );
}

/// A database that is away is waited for: no exit, no restart.
#[test]
fn an_outage_of_the_database_is_waited_for() {
    run(
        |_| {},
        |tree, mut server, queue| async move {
            queue.let_through(Some(5));
            eventually("some jobs are pushed", || queue.pushed() == 50).await;
            server.kill_nine();
            queue.let_through(None);
            let link = || tree.node(PRODUCER).unwrap().link.unwrap().state;
            eventually("the link is down", || link() == "down").await;
            assert!(ask(&tree, "status").await["away"]["database"].is_string());
            server.start_again();
            eventually("all is done", || state(&tree) == "stopped").await;
            queue.assert_all_once();
            assert_eq!((tree.node(PRODUCER).unwrap().restarts, completed(&server).await), (0, 4));
        },
    );
}

#[test]
fn an_operator_pauses_and_resumes() {
    run(
        |_| {},
        |tree, server, queue| async move {
            let _server = server;
            assert_eq!(ask(&tree, "pause").await, json!({ "paused": true }));
            queue.let_through(None);
            eventually("it comes to its first chunk", || {
                tree.node(PRODUCER).unwrap().link.unwrap().state == "up"
            })
            .await;
            let status = ask(&tree, "status").await;
            assert_eq!((&status["paused"], queue.pushed()), (&json!(true), 0), "{status}");
            assert_eq!(ask(&tree, "resume").await, json!({ "paused": false }));
            eventually("all is done", || state(&tree) == "stopped").await;
            queue.assert_all_once();
            let request = ConsoleRequest { verb: "sing".to_owned(), args: Value::Null };
            assert!(tree.console(PRODUCER, request).await.is_err(), "it has ended");
        },
    );
}

/// What blocks is told, since when.
#[test]
fn a_stall_is_told() {
    run(
        |_| {},
        |tree, server, queue| async move {
            queue.0.lock().unwrap().dead = 2;
            queue.let_through(None);
            eventually("all is pushed", || queue.pushed() == 400).await;
            let mut status = Value::Null;
            while status["phase"] != "blocked" {
                status = ask(&tree, "status").await;
            }
            let since = status["since_ms"].as_u64().unwrap();
            assert!(
                since > 1_700_000_000_000
                    && status["blocked_by"][0].as_str().unwrap().starts_with("2 jobs of any type dead"),
                "{status}"
            );
            assert_eq!(completed(&server).await, 3);
            queue.0.lock().unwrap().dead = 0;
            eventually("all is done", || state(&tree) == "stopped").await;
        },
    );
}

/// Strict dies of an empty set as the original does, again and again; what it says names the stencil.
#[test]
fn strict_fails_of_an_empty_set() {
    run(
        |config| {
            config.compat = Compat::Strict;
            config.mongodb.tangles = "empty".to_owned();
        },
        |tree, server, queue| async move {
            let exit = || tree.node(PRODUCER).unwrap().last_exit;
            eventually("it has failed", || exit().is_some()).await;
            let reason = exit().unwrap().reason;
            assert!(
                reason.contains("stencil 010101010101010101010101")
                    && reason.contains("no tangles with TCN 2"),
                "{reason}"
            );
            let found = stencils(&server).await.find_one(doc! { "TCN": 4 }).await.unwrap().unwrap();
            assert_eq!((found.get_i32("state").unwrap(), found.len(), queue.pushed()), (1, 5, 0));
        },
    );
}
