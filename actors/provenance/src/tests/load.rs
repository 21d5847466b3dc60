//! Load of all ten methods through the client. Every row in the store is compared with an
//! independent model.
//!
//! `ORCHESTRATOR_PROVENANCE_ROWS` sets the number of rows of each method.

mod expected;
mod querying;
mod rows;

use std::time::Instant;

use futures_util::{StreamExt, stream};
use orchestrator_harness::{MongoDb, Postgres, Rabbit, rounds};
use orchestrator_subsystem::Address;
use orchestrator_supervise::{
    Strategy, SupervisorSpec, Tree, reply,
    testing::{TestTree, eventually},
};

use expected::Held;
use rows::Load;

use crate::{
    ProvenanceConfig, ProvenanceHandle, Transport, WriterKind, child_spec,
    edge::postgres::{self, init},
    rmq_client::AddRows,
    row::Rows,
    tests::conformance::{Flavor, Model},
};

/// Maximum number of concurrent calls.
const CALLS: usize = 12;

/// Runs the load with `config`.
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
    let (tree, handle) = child_spec(config).unwrap();
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(tree), async |tree| {
        if config.transport == Transport::Amqp {
            // The client fails at once on a missing queue, instead of waiting for a server.
            eventually("all queues are consumed", || metric(&tree, "provenance/amqp", "consumed") == 160)
                .await;
        }
        let started = Instant::now();
        for (name, calls) in phases {
            add_all(&handle, name, calls).await;
        }
        let took = started.elapsed();
        let mut expected = Held::from(model);
        if flavor.urls_unique {
            expected.settle_contested(&contested);
        }
        if !flavor.locations {
            expected.register_paths();
        }
        let mut stored = querying::everything(&handle).await;
        if flavor.urls_unique {
            stored.settle_contested(&contested);
        }
        stored.assert_equals(&expected);
        let sent = 10 * count;
        let rate = sent as f64 / took.as_secs_f64();
        eprintln!(
            "{name}: {sent} rows sent in {took:?} ({rate:.0}/s), {} held, compared after {:?}",
            expected.len(),
            started.elapsed()
        );
        assert_undisturbed(&tree, flavor);
    });
}

async fn add_all(handle: &ProvenanceHandle, name: &str, calls: Vec<Rows>) {
    let ended = stream::iter(calls).map(async |rows| {
        let sent = rows.len() as u64;
        let (reply, receipt) = reply();
        handle.add.tell(AddRows { rows, reply }).expect("room in the mailbox");
        let receipt = receipt.await.expect("a client").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((receipt.stored, receipt.refused), (sent, Vec::new()), "{name}");
    });
    ended.buffer_unordered(CALLS).for_each(async |()| {}).await;
}

/// Asserts that nothing was restarted, and that the left-out rows were counted.
fn assert_undisturbed(tree: &Tree, flavor: Flavor) {
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

/// Runs the load over a real broker into a real PostgreSQL.
fn through_rabbitmq_into_postgresql(flavor: postgres::Flavor) {
    let dsn = Postgres::shared().create_database(flavor.name());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(init(&dsn, flavor)).unwrap();
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Address::new(Rabbit::shared().create_vhost(flavor.name()));
    config.writer.kind = WriterKind::Postgres;
    config.postgres.dsn = Address::new(dsn.clone());
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

/// Small, since the server is a stand-in.
#[test]
fn through_rabbitmq_into_mongodb() {
    let server = MongoDb::start();
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Address::new(Rabbit::shared().create_vhost("mongodb"));
    config.writer.kind = WriterKind::Mongodb;
    config.mongodb.uri = Address::new(server.uri());
    let lacks = Flavor { locations: false, urls_unique: false, exact_dates: false, ..Flavor::FULL };
    stores_every_row("mongodb", &config, lacks, 1_000);
}
