//! Provenance rows through a real RabbitMQ into a real PostgreSQL, all on the same machine.
//!
//! The calibration K is the same rows written straight into the same tables, one set-based statement for
//! 1,000 rows, by one connection.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use futures_util::future::try_join_all;
use orchestrator_edge::amqp::Broker;
use orchestrator_harness::{Instance, Postgres, ProvenanceEnv, Rabbit};
use orchestrator_provenance::bench::{
    Call, Date, Flavor, Outgoing, PostgresStore, PublisherOptions, Query, QueryResult, Relation, RelationRow,
    RevisionData, Routing, Rows, Sha1Git, Store, StoreReader, binding_key, client, encode, exchange, init,
    split,
};
use orchestrator_supervise::{ChildSpec, Outbox, Root, Strategy, SupervisorSpec, inbox};
use serde_json::{Value, json};

/// Rows of a statement of the calibration.
const STATEMENT: usize = 1_000;
/// Rows of a message, as the original's client sends them.
const MESSAGE: usize = 100;
/// Rows of a call, and calls at a time.
const CALL: (usize, usize) = (5_000, 8);
/// Calls of one row that are timed.
const SINGLE: u32 = 200;

/// The servers and the rows.
pub(crate) fn run(binary: &Path, rows: usize) -> Result<Value> {
    let (rabbit, postgres) = (Rabbit::start(), Postgres::start());
    let mut databases = ["calibration", "provenance"].map(|name| postgres.create_database(name)).into_iter();
    let (calibration, dsn) = (databases.next().unwrap_or_default(), databases.next().unwrap_or_default());
    let (entities, relations) = load(rows);
    actix_rt::System::new().block_on(async {
        for dsn in [&calibration, &dsn] {
            init(dsn, Flavor::WithPath).await?;
        }
        let mut store = PostgresStore::connect(&calibration).await?;
        let k = [straight(&mut store, &entities).await?, straight(&mut store, &relations).await?];
        drop(store);
        let (_env, instance, consumed_s) = serve(binary, &rabbit, &dsn);
        let (calls, slot) = inbox(1_024);
        let publisher = client(
            Broker::new(&rabbit.url(), "bench").map_err(anyhow::Error::msg)?,
            PublisherOptions::default(),
            &slot,
        );
        let spec = SupervisorSpec::new(Strategy::OneForOne).child(ChildSpec::worker("publisher", publisher));
        let mut root = Root::start("bench", spec).await?;
        let before = cpu_s(&instance)?;
        let ours = [carried(&calls, &entities).await?, carried(&calls, &relations).await?];
        let cpu = cpu_s(&instance)? - before;
        let (straight, through) = (counts(&calibration).await?, counts(&dsn).await?);
        if straight != through {
            bail!("other rows are stored: {straight:?} straight, {through:?} through the broker");
        }
        let single = single(&calls).await?;
        root.stop().await;
        let total = (count(&entities) + count(&relations)) as f64;
        let of = |seconds: [f64; 2]| total / (seconds[0] + seconds[1]);
        Ok(json!({
            "bench": "provenance",
            "rows": total,
            "stored": format!("{through:?}"),
            "k_rows_per_s": of(k).round(),
            "rows_per_s": of(ours).round(),
            "of_k": (of(ours) / of(k) * 100.0).round() / 100.0,
            "relations_per_s": (count(&relations) as f64 / ours[1]).round(),
            "server_cpu_us_a_row": (cpu / total * 1e8).round() / 100.0,
            "consumed_s": consumed_s,
            "single_p50_ms": single,
            "rss_mib": (instance.memory("VmRSS") as f64 / f64::from(1 << 20)).round(),
        }))
    })
}

fn number(kind: u8, number: usize) -> Sha1Git {
    // Spread over the ranges and the index as real ones are.
    Sha1Git::of(&[&[kind], &number.to_be_bytes()[..]].concat())
}

/// A mixed load: entities, and then as many rows of relations between them.
fn load(rows: usize) -> (Vec<Rows>, Vec<Rows>) {
    let n = rows / 10;
    let date = |i: usize| Date::from_micros(i as i64 * 1_000_003);
    let path = |i: usize| Bytes::from(format!("src/module_{}/file_{i}.c", i % 97));
    let dated = |kind, n: usize| (0..n).map(|i| (number(kind, i), date(i))).collect();
    let entities = vec![
        Rows::Origins(
            (0..n / 10).map(|i| (number(4, i), format!("https://example.org/project/{i}"))).collect(),
        ),
        Rows::Contents(dated(1, 2 * n)),
        Rows::Directories(dated(2, n)),
        Rows::Locations((0..n).map(path).collect()),
        Rows::Revisions(
            (0..n)
                .map(|i| {
                    (
                        number(3, i),
                        RevisionData { date: date(i), origin: Some(number(4, i % (n / 10).max(1))) },
                    )
                })
                .collect(),
        ),
    ];
    let related = |relation: Relation, n: usize, ends: [(u8, usize); 2], paths: usize| {
        let rows = (0..n).map(|i| RelationRow {
            src: number(ends[0].0, i % ends[0].1),
            dst: number(ends[1].0, (i * 7) % ends[1].1),
            path: relation.has_path().then(|| path(i % paths)),
        });
        Rows::Relations(relation, rows.collect())
    };
    let relations = vec![
        related(Relation::ContentInRevision, 2 * n, [(1, 2 * n), (3, n)], n),
        related(Relation::ContentInDirectory, n, [(1, 2 * n), (2, n)], n),
        related(Relation::DirectoryInRevision, n, [(2, n), (3, n)], n),
        related(Relation::RevisionInOrigin, n / 2, [(3, n), (4, (n / 10).max(1))], n),
        related(Relation::RevisionBeforeRevision, n / 2, [(3, n), (3, n)], n),
    ];
    (entities, relations)
}

fn count(load: &[Rows]) -> usize {
    load.iter().map(Rows::len).sum()
}

async fn counts(dsn: &str) -> Result<QueryResult> {
    Ok(PostgresStore::connect(dsn).await?.read(&Query::Counts).await?)
}

fn pieces(rows: &Rows, size: usize) -> impl Iterator<Item = Rows> {
    (0..rows.len()).step_by(size).map(move |from| rows.part(from..rows.len().min(from + size)))
}

/// Seconds of the calibration.
async fn straight(store: &mut PostgresStore, load: &[Rows]) -> Result<f64> {
    let begun = Instant::now();
    for rows in load {
        for piece in pieces(rows, STATEMENT) {
            store.write(&[piece.resolve()]).await?;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Starts the server; seconds until it consumes all its queues.
fn serve(binary: &Path, rabbit: &Rabbit, dsn: &str) -> (ProvenanceEnv, Instance, f64) {
    let env = ProvenanceEnv::new(binary.canonicalize().unwrap_or_else(|_| binary.to_owned()))
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url={}", rabbit.url()))
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn={dsn}"));
    let begun = Instant::now();
    let instance = env.start();
    orchestrator_harness::eventually("all queues to be consumed", || {
        env.base().metric("provenance/amqp", "consumed") == 160
    });
    (env, instance, begun.elapsed().as_secs_f64())
}

/// Seconds of the same rows through the broker, method by method, some calls at a time.
async fn carried(calls: &Outbox<Call>, load: &[Rows]) -> Result<f64> {
    let begun = Instant::now();
    for rows in load {
        let mut pieces = pieces(rows, CALL.0);
        loop {
            let together: Vec<_> = pieces.by_ref().take(CALL.1).map(|piece| call(calls, piece)).collect();
            if together.is_empty() {
                break;
            }
            try_join_all(together).await?;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

async fn call(calls: &Outbox<Call>, rows: Rows) -> Result<()> {
    let expected = rows.len() as u64;
    let messages = split(rows, Routing::FirstByte).into_iter().flat_map(|(range, rows)| {
        pieces(&rows, MESSAGE)
            .map(|piece| Outgoing {
                exchange: exchange(piece.method()),
                routing_key: binding_key(piece.method(), range),
                items: piece.len() as u32,
                body: encode(&piece),
            })
            .collect::<Vec<_>>()
    });
    let (reply, answer) = orchestrator_supervise::reply();
    calls.send(Call { messages: messages.collect(), reply }).await.map_err(|error| anyhow!("{error}"))?;
    let stored = answer.await??;
    if stored != expected {
        bail!("{stored} of {expected} rows are stored");
    }
    Ok(())
}

/// Median of calls of one row, milliseconds.
async fn single(calls: &Outbox<Call>) -> Result<f64> {
    let mut took = Vec::new();
    for i in 0..SINGLE {
        let begun = Instant::now();
        call(calls, Rows::Contents(vec![(number(9, i as usize), None)])).await?;
        took.push(begun.elapsed());
    }
    took.sort();
    Ok((took[took.len() / 2].as_secs_f64() * 1e5).round() / 100.0)
}

/// CPU time that the process has used.
fn cpu_s(instance: &Instance) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", instance.pid()))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // The kernel counts in hundredths of a second (USER_HZ).
    Ok(Duration::from_secs_f64(ticks.iter().sum::<f64>() / 100.0).as_secs_f64())
}
