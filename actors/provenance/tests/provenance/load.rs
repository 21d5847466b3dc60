//! A load of all ten methods through the client into a store, every row of which is then compared with an independent
//! model, as the store's reader tells it.
//!
//! `ORCHESTRATOR_PROVENANCE_ROWS` sets how many rows of each method are sent.

mod asking;
mod expected;
mod rows;

use std::time::Instant;

use futures_util::{StreamExt, stream};
use orchestrator_harness::{MongoDb, Postgres, Rabbit, rounds};
use orchestrator_provenance::{
    Entrance, ProvenanceConfig, Transport, WriterKind,
    edge::postgres::{self, init},
    rmq_client::AddRows,
    row::Rows,
    with_entrance,
};
use orchestrator_supervise::{
    Strategy, SupervisorSpec, Tree, reply,
    testing::{TestTree, eventually},
};

use crate::conformance::{Flavor, Model};
use expected::Held;
use rows::Load;

/// Calls that are under way at once.
const CALLS: usize = 12;

/// Runs the load into the store of `config`.
fn stores_every_row(name: &str, config: &ProvenanceConfig, flavor: Flavor, rows_max: usize) {
    let count = rows_max.min(rounds("ORCHESTRATOR_PROVENANCE_ROWS", 3_000) as usize);
    let seed = rounds("ORCHESTRATOR_SEED", 1);
    eprintln!("{name}: {count} rows of each method, ORCHESTRATOR_SEED={seed}");
    let Load { phases, contested } = rows::load(seed, count, flavor);
    let contested: Vec<_> = contested.into_iter().map(|(url, ids)| (url, ids.map(|id| id.0))).collect();
    let mut model = Model::new(flavor);
    for (_, calls) in &phases {
        calls.iter().for_each(|call| expected::take(&mut model, call));
    }
    let (tree, entrance) = with_entrance(config).unwrap();
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(tree), async |tree| {
        if config.transport == Transport::Amqp {
            // The client says at once that a queue is missing, rather than to wait for a server.
            eventually("all queues are consumed", || metric(&tree, "provenance/amqp", "consumed") == 160)
                .await;
        }
        let begun = Instant::now();
        for (name, calls) in phases {
            add_all(&entrance, name, calls).await;
        }
        let stored = begun.elapsed();
        let mut expected = Held::from(model);
        if flavor.urls_unique {
            expected.settle_contested(&contested);
        }
        if !flavor.locations {
            expected.register_paths();
        }
        let mut told = asking::everything(&entrance).await;
        if flavor.urls_unique {
            told.settle_contested(&contested);
        }
        told.assert_equals(&expected);
        let sent = 10 * count;
        let rate = sent as f64 / stored.as_secs_f64();
        eprintln!(
            "{name}: {sent} rows sent in {stored:?} ({rate:.0}/s), {} held, compared after {:?}",
            expected.len(),
            begun.elapsed()
        );
        calm(&tree, flavor);
    });
}

async fn add_all(entrance: &Entrance, name: &str, calls: Vec<Rows>) {
    let ended = stream::iter(calls).map(async |rows| {
        let sent = rows.len() as u64;
        let (reply, receipt) = reply();
        entrance.add.tell(AddRows { rows, reply }).expect("room in the mailbox");
        let receipt = receipt.await.expect("a client").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((receipt.stored, receipt.refused), (sent, Vec::new()), "{name}");
    });
    ended.buffer_unordered(CALLS).for_each(async |()| {}).await;
}

/// Nothing was restarted, and what the load holds of the kinds that are left out was counted.
fn calm(tree: &Tree, flavor: Flavor) {
    tree.snapshot().root.walk(&mut |node| assert_eq!(node.restarts, 0, "{}", node.path));
    for (name, counted) in
        [("unregistered", true), ("url_taken", flavor.urls_unique), ("origin_unknown", true)]
    {
        assert_eq!(metric(tree, "provenance/writer", name) > 0, counted, "{name}");
    }
}

fn metric(tree: &Tree, path: &str, name: &str) -> i64 {
    let node = tree.node(path).unwrap();
    node.metrics.iter().find(|metric| metric.name == name).map_or(0, |metric| metric.value)
}

/// Over a real broker into a real PostgreSQL.
fn through_rabbitmq_into_postgresql(flavor: postgres::Flavor) {
    let dsn = Postgres::shared().create_database(flavor.name());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(init(&dsn, flavor)).unwrap();
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Rabbit::shared().create_vhost(flavor.name());
    config.writer.kind = WriterKind::Postgres;
    config.postgres.dsn = dsn.clone();
    let lacks = Flavor { with_path: flavor.has_paths(), locations: flavor.has_paths(), ..Flavor::FULL };
    stores_every_row(flavor.name(), &config, lacks, usize::MAX);
}

#[test]
fn with_path() {
    through_rabbitmq_into_postgresql(postgres::Flavor::WithPath);
}

#[test]
fn without_path() {
    through_rabbitmq_into_postgresql(postgres::Flavor::WithoutPath);
}

#[test]
fn with_path_denormalized() {
    through_rabbitmq_into_postgresql(postgres::Flavor::WithPathDenormalized);
}

#[test]
fn without_path_denormalized() {
    through_rabbitmq_into_postgresql(postgres::Flavor::WithoutPathDenormalized);
}

#[test]
fn embedded_into_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = ProvenanceConfig::default();
    config.sqlite.path = dir.path().join("provenance.db");
    config.dead_letters = dir.path().join("dead-letters.db");
    stores_every_row("sqlite", &config, Flavor::FULL, usize::MAX);
}

/// Small: the server is a stand-in, whose speed says nothing.
#[test]
fn through_rabbitmq_into_mongodb() {
    let server = MongoDb::start();
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Rabbit::shared().create_vhost("mongodb");
    config.writer.kind = WriterKind::Mongodb;
    config.mongodb.uri = server.uri();
    let lacks = Flavor { locations: false, urls_unique: false, exact_dates: false, ..Flavor::FULL };
    stores_every_row("mongodb", &config, lacks, 1_000);
}
