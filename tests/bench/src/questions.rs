//! Questions of operators to both stores, each filled with the same rows.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use orchestrator_harness::Postgres;
use orchestrator_queue_postgres::{InstanceConfig, PostgresConfig, PostgresInspector, creation};
use orchestrator_queue_rules::storage::{FailedAttempts, HandoutSettings, Questions, StorageError};
use orchestrator_queue_sqlite::{Inspector, Options as SqliteOptions, SqliteStore};
use orchestrator_subsystem::Address;
use orchestrator_supervise::StopToken;
use rusqlite::{Connection, config::DbConfig};
use serde_json::{Map, Value, json};

use crate::calibration::median;

/// More time than any question takes.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Time of the questions, in unix seconds; the last hand-outs are from that time.
const NOW: i64 = 1_700_000_000;
/// Maximum number of rows in an answer of several.
const LIMIT: usize = 1_000;
/// Schema in PostgreSQL.
const SCHEMA: &str = "questions";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows of each store
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Times that each question is asked
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// Asks a question, and returns the size of its answer.
type Ask = fn(&mut dyn Questions) -> Result<usize, StorageError>;

const QUESTIONS: [(&str, Ask); 12] = [
    ("runs", |store| Ok(store.runs()?.len())),
    ("peek", |store| Ok(store.peek(None, NOW, LIMIT)?.len())),
    ("counts", |store| Ok(usize::try_from(store.counts()?.rows).unwrap_or_default())),
    ("attr", |store| Ok(store.attr("pkgs.p0000002", NOW, LIMIT)?.listed.len())),
    ("in_flight", |store| Ok(store.in_flight(None, LIMIT)?.len())),
    ("failed", |store| {
        Ok(store.failed(&FailedAttempts { limit: LIMIT, ..FailedAttempts::default() })?.len())
    }),
    ("failures", |store| Ok(store.failures(0, LIMIT)?.len())),
    ("stale", |store| Ok(store.stale(NOW - 399_900, LIMIT)?.len())),
    ("instances", |store| Ok(store.instances()?.len())),
    ("last_runs", |store| Ok(store.last_runs()?.len())),
    ("sample", |store| Ok(usize::try_from(store.sample(NOW)?.in_flight).unwrap_or_default())),
    ("listing", |store| Ok(store.listing(NOW)?.groups.len())),
];

pub(crate) fn run(options: &Options) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("queue.db");
    fill_sqlite(&file, options.rows)?;
    // As the housekeeper does: a connection to a file for each question, and one to a server for all.
    let in_sqlite =
        measure(options.rounds, |ask| ask(&mut Inspector::open(&file, SqliteOptions::default(), TIMEOUT)?))?;
    let server = Postgres::start();
    let mut inspector =
        PostgresInspector::new(&fill_postgres(&server, options.rows), TIMEOUT, StopToken::new());
    let in_postgres = measure(options.rounds, |ask| ask(&mut inspector))?;
    for (name, _) in QUESTIONS.iter().filter(|(name, _)| *name != "instances") {
        let [sqlite, postgres] = [&in_sqlite, &in_postgres].map(|answers| &answers[*name]["size"]);
        ensure!(sqlite == postgres, "answers to {name} differ: {sqlite} and {postgres}");
    }
    Ok(json!({ "bench": "questions", "rows": options.rows, "sqlite": in_sqlite, "postgres": in_postgres }))
}

/// Size of each answer, and the median time that it took.
fn measure(rounds: usize, mut answer: impl FnMut(Ask) -> Result<usize, StorageError>) -> Result<Value> {
    let mut measured = Map::new();
    for (name, ask) in QUESTIONS {
        let mut size = answer(ask)?;
        let mut times = Vec::new();
        for _ in 0..rounds {
            let started = Instant::now();
            size = answer(ask)?;
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        measured.insert(
            name.to_owned(),
            json!({ "ms": (median(times) * 1_000.0).round() / 1_000.0, "size": size }),
        );
    }
    Ok(measured.into())
}

fn fill_sqlite(file: &Path, rows: usize) -> Result<()> {
    drop(SqliteStore::open(file, SqliteOptions::default())?);
    let conn = Connection::open(file)?;
    // The statements write the table of groups, too.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    Ok(conn.execute_batch(&filled(include_str!("questions/sqlite.sql"), rows))?)
}

fn fill_postgres(server: &Postgres, rows: usize) -> InstanceConfig {
    let dsn = server.create_database("bench");
    server.script(&dsn, &creation(SCHEMA));
    let fill = filled(include_str!("questions/postgres.sql"), rows);
    server.script(&dsn, &format!("SET search_path = {SCHEMA};\n{fill}"));
    let (schema, instance) = (SCHEMA.to_owned(), Some("i".to_owned()));
    InstanceConfig {
        postgres: PostgresConfig { dsn: Address::new(dsn), dsn_file: None, schema, instance },
        handouts: HandoutSettings::default(),
        input_dir: PathBuf::from("input"),
        socket: PathBuf::from("socket"),
    }
}

fn filled(sql: &str, rows: usize) -> String {
    sql.replace("$paths", &(rows * 9 / 10).to_string())
        .replace("$rows", &rows.to_string())
        .replace("$now", &NOW.to_string())
}
