//! The queue on PostgreSQL: the real binary beside a bare client with the same statements, and beside other
//! queues of the same machine.

mod bare;
mod long;
mod others;

use std::{
    path::Path,
    process::Command,
    thread::{scope, sleep},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use orchestrator_harness::{Postgres, Rabbit, Reply};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use self::bare::Bare;
use crate::{
    calibration::{self, median},
    load,
    queue::{Program, quantile, unsuccessful},
    subject::{Subject, row},
};

/// Workers of all instances together.
const WORKERS: usize = 64;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows of each queue, which the rounds take jobs from
    #[arg(long, default_value_t = 450_000)]
    rows: usize,
    /// Rounds of each comparison. The jobs that workers keep from each round use up a limit, which is 1,000
    /// at most
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=14))]
    rounds: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rows that were handed out before NOJOBS is measured
    #[arg(long, default_value_t = 1_000_000)]
    dequeued: usize,
    /// Measure only the rate while somebody holds a transaction open for so many seconds, after the same time
    /// without
    #[arg(long)]
    held: Option<u64>,
    /// Measure only the dead rows after so many minutes of work
    #[arg(long)]
    minutes: Option<u64>,
}

/// The server, and what it runs for.
struct Bench<'a> {
    binary: &'a Path,
    options: &'a Options,
    server: Postgres,
    dsn: String,
    runtime: Runtime,
}

pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let mut server = Postgres::start();
    let dsn = server.create_database("bench");
    server.script(&dsn, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
    server.stop();
    server.start_again();
    server.script(&dsn, "CREATE EXTENSION pg_stat_statements");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let bench = Bench { binary, options, server, dsn, runtime };
    match options {
        Options { held: Some(seconds), .. } => bench.held(*seconds),
        Options { minutes: Some(minutes), .. } => bench.dead_rows(*minutes),
        _ => bench.rates(),
    }
}

impl Bench<'_> {
    fn script(&self, sql: &str) -> String {
        self.server.script(&self.dsn, sql)
    }

    fn number(&self, sql: &str) -> Result<f64> {
        Ok(self.script(sql).trim().parse()?)
    }

    /// Prepares an instance of a queue.
    fn instance(&self, schema: &str, name: &str, limits: &str) -> Result<Subject> {
        Subject::configured(
            self.binary,
            &format!(
                "[admin]\nlisten = \"\"\n[queue]\nstore = \"postgres\"\n[queue.postgres]\ndsn = \"{}\"\nschema = \"{schema}\"\n\
                 instance = \"{name}\"\n{limits}",
                self.dsn
            ),
        )
    }

    /// Starts an instance of a new queue, with rows. Returns their number for each second.
    fn filled(&self, schema: &str, limits: &str, rows: usize) -> Result<(Subject, f64)> {
        let mut subject = self.instance(schema, "one", limits)?;
        subject.start()?;
        subject.first_answer();
        subject.publish("../staged.1.txt", rows)?;
        let begun = Instant::now();
        self.publish(&subject, schema, "bench.1.txt", rows)?;
        Ok((subject, rows as f64 / begun.elapsed().as_secs_f64()))
    }

    /// Moves the staged file in and waits until all of its rows are there.
    fn publish(&self, subject: &Subject, schema: &str, name: &str, rows: usize) -> Result<()> {
        subject.move_in("staged.1.txt", name)?;
        let complete = format!(
            "SELECT count(*) FROM {schema}.run AS r WHERE is_complete AND NOT is_deleted AND run_started = {}",
            name.split('.').nth(1).context("a start")?
        );
        let give_up = Instant::now() + Duration::from_secs(60 + rows as u64 / 2_000);
        while self.number(&complete)? < 1.0 {
            ensure!(Instant::now() < give_up, "the rows did not arrive");
            // The question starts a psql.
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn span(&self) -> Duration {
        Duration::from_secs(self.options.seconds)
    }

    /// Jobs a second of workers of these instances, and their latency at the 99th percentile in milliseconds.
    fn work(&self, instances: &[&Subject], span: Duration) -> Result<(f64, f64)> {
        let workers = WORKERS / instances.len();
        let loads = scope(|threads| {
            let running: Vec<_> = instances
                .iter()
                .map(|instance| {
                    let socket = instance.socket();
                    threads.spawn(move || load::run(&socket, workers, span, false))
                })
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("a load does not panic"))
                .collect::<Result<Vec<_>>>()
        });
        let (mut rate, mut p99) = (0.0, 0.0_f64);
        for mut load in loads? {
            rate += load.ops_per_s();
            p99 = p99.max(load.quantile_ms(0.99));
        }
        Ok((rate, p99))
    }

    /// Statements and bytes of WAL for each job, and jobs of each transaction, of a load.
    fn costs(&self, work: impl FnOnce() -> Result<f64>) -> Result<Value> {
        const WAL: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
        self.script("SELECT pg_stat_statements_reset()");
        let before = self.number(WAL)?;
        let (rate, begun) = (work()?, Instant::now());
        let wal = self.number(WAL)? - before;
        ensure!(begun.elapsed() < Duration::from_secs(5), "the server did not answer in time");
        let totals = self.script(
            "SELECT sum(calls), sum(rows) FILTER (WHERE query LIKE '%hand_out(%'), sum(calls) FILTER (WHERE query LIKE '%hand_out(%')
             FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%' AND query NOT LIKE '%pg_wal%'",
        );
        let totals: Vec<f64> = totals.trim().split('|').map(str::parse).collect::<Result<_, _>>()?;
        let [statements, jobs, batches] = totals[..] else { anyhow::bail!("{totals:?}") };
        Ok(json!({
            "jobs_per_s": rate.round(),
            "statements_a_job": round(statements / jobs),
            "wal_bytes_a_job": (wal / jobs).round(),
            "jobs_a_batch": round(jobs / batches),
        }))
    }

    fn rates(&self) -> Result<Value> {
        let Options { rows, rounds, .. } = *self.options;
        let staged = self.staged_rows_per_s(rows)?;
        note("staged", staged);
        let (mut one, ingest) = self.filled("ours", "", rows)?;
        note("ingest", ingest);
        drop(self.filled("bare", "", rows)?);
        self.settle();
        let mut bare = self.runtime.block_on(Bare::connect(&self.dsn, "bare"))?;
        let costs_of_one = self.costs(|| Ok(self.work(&[&one], self.span())?.0))?;
        let batch = costs_of_one["jobs_a_batch"].as_f64().context("a number")?.round().max(1.0) as usize;
        note("one instance", &costs_of_one);
        let mut bare_rate = || self.runtime.block_on(bare.jobs_per_s(batch, self.span()));
        let (mut k, mut rates, mut p99s) = (vec![bare_rate()?], vec![], vec![]);
        for _ in 0..rounds {
            let (rate, p99) = self.work(&[&one], self.span())?;
            rates.push(rate);
            p99s.push(p99);
            k.push(bare_rate()?);
        }
        let of_k = calibration::of_neighbours(&rates, &k);
        let mut two = self.instance("ours", "two", "")?;
        two.start()?;
        two.first_answer();
        let costs_of_two = self.costs(|| Ok(self.work(&[&one, &two], self.span())?.0))?;
        let hot = self.hot_updates("ours")?;
        note("rounds", format!("K {k:?}, ours {rates:?}, of K {of_k:?}, two {costs_of_two}, HOT {hot}"));
        two.kill()?;
        one.kill()?;
        let with_limits = self.with_limits()?;
        note("limits", &with_limits);
        let nojobs = self.nojobs()?;
        note("nojobs", &nojobs);
        Ok(json!({
            "bench": "shared-queue", "rows": rows, "workers": WORKERS,
            "k_jobs_per_s": median(k).round(), "batch": batch, "jobs_per_s": median(rates).round(), "p99_ms": round(median(p99s)),
            "of_k": round(median(of_k.clone())), "of_k_each": of_k.into_iter().map(round).collect::<Vec<_>>(),
            "one_instance": costs_of_one, "two_instances": costs_of_two, "hot_updates": hot, "with_limits": with_limits,
            "ingest": { "rows_per_s": ingest.round(), "staged_rows_per_s": staged.round(), "of_staged": round(ingest / staged) },
            "nojobs": nojobs,
            "others": self.others()?,
            "durable_commits_per_s": calibration::durable_commits(&std::env::temp_dir())?.round(),
        }))
    }

    /// Rows a second that psql copies into a table and adds with the program's statements.
    fn staged_rows_per_s(&self, rows: usize) -> Result<f64> {
        // The program makes the tables.
        let mut subject = self.instance("staged", "one", "")?;
        subject.start()?;
        subject.first_answer();
        subject.kill()?;
        let file = subject.path("rows");
        let lines: String =
            (0..rows).map(|n| format!("{}\t{}\n", row::attr_path(n), row::payload(n))).collect();
        std::fs::write(&file, lines)?;
        let script = format!(
            "{}; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
             SET enable_mergejoin = off; SET jit = off;
             CREATE TABLE line (n bigint GENERATED ALWAYS AS IDENTITY, path text COLLATE \"C\", payload text);
             CREATE INDEX ON line (n);
             SELECT upsert_run('one', 'bench', 1, true, 1);\n\\copy line (path, payload) FROM '{}'\n
             DO $$ DECLARE slice bigint; BEGIN
                 FOR slice IN 0..{} LOOP
                     PERFORM ingest((SELECT fetcher_id FROM fetcher), 1, array_agg(path), array_agg(payload), array_agg(hashtext(path)))
                     FROM line WHERE n > slice * 500 AND n <= slice * 500 + 500;
                     COMMIT;
                 END LOOP;
             END $$;",
            search_path("staged"),
            file.display(),
            rows / 500
        );
        let file = subject.path("script");
        std::fs::write(&file, script)?;
        let begun = Instant::now();
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.dsn, "-o", "/dev/null", "-f"]).arg(file);
        ensure!(psql.status()?.success(), "psql failed");
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(self.number("SELECT count(*) FROM staged.ready")? as usize == rows, "all rows wait");
        Ok(rows as f64 / seconds)
    }

    /// Part of the updates that left all indexes alone.
    fn hot_updates(&self, schema: &str) -> Result<Value> {
        let by_table = self.script(&format!(
            "SELECT pg_stat_force_next_flush(); SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
             WHERE schemaname = '{schema}' AND n_tup_upd > 0 ORDER BY relname"
        ));
        let (mut updates, mut hot) = (0.0, 0.0);
        for line in by_table.lines() {
            let Some([_, all, of_these]) = line.split('|').collect::<Vec<_>>().first_chunk::<3>().copied()
            else {
                continue;
            };
            updates += all.parse::<f64>()?;
            hot += of_these.parse::<f64>()?;
        }
        Ok(
            json!({ "of_all": round(hot / updates), "by_table": by_table.split_whitespace().collect::<Vec<_>>() }),
        )
    }

    /// Two instances whose limits cover all jobs, in turn with two of another queue that have none.
    fn with_limits(&self) -> Result<Value> {
        // The jobs that workers have at the end of a round stay in flight.
        let places = WORKERS as u64 * (self.options.rounds + 1);
        let limit = |pattern: &str| format!("[[queue.limit]]\nmatch = \"{pattern}\"\nin_flight = {places}\n");
        let with = self.two_instances("limited", &(limit("python*") + &limit("*")))?;
        let without = self.two_instances("free", "")?;
        self.settle();
        let (mut rates, mut free) = (vec![], vec![self.work(&without.each_ref(), self.span())?.0]);
        for _ in 0..self.options.rounds {
            rates.push(self.work(&with.each_ref(), self.span())?.0);
            free.push(self.work(&without.each_ref(), self.span())?.0);
        }
        let of_free = calibration::of_neighbours(&rates, &free);
        note("with and without limits", format!("{rates:?}, {free:?}"));
        Ok(json!({
            "jobs_per_s": median(rates).round(), "without": median(free).round(), "of_without": round(median(of_free.clone())),
            "of_without_each": of_free.into_iter().map(round).collect::<Vec<_>>(),
        }))
    }

    fn two_instances(&self, schema: &str, limits: &str) -> Result<[Subject; 2]> {
        let (one, _) = self.filled(schema, limits, self.options.rows)?;
        let mut two = self.instance(schema, "two", limits)?;
        two.start()?;
        two.first_answer();
        Ok([one, two])
    }

    /// Does now what the server would do during the measurements: it vacuums tables that are new, and writes
    /// each page whole that is changed for the first time after a checkpoint.
    fn settle(&self) {
        self.script("VACUUM ANALYZE");
        self.script("CHECKPOINT");
    }

    /// NOJOBS where all rows were handed out.
    fn nojobs(&self) -> Result<Value> {
        let rows = self.options.dequeued;
        let (mut subject, _) = self.filled("drained", "", rows)?;
        subject.kill()?;
        self.script(
            "SET search_path = drained; UPDATE listing SET is_dequeued = true; DELETE FROM ready;
             INSERT INTO log SELECT attr_path, 1, 2, 0 FROM listing; ANALYZE",
        );
        subject.start()?;
        ensure!(subject.first_answer().1 == Reply::NoJobs, "a job was handed out");
        let latencies = unsuccessful(&mut subject.worker())?;
        Ok(
            json!({ "rows": rows, "median_ms": quantile(&latencies, 0.5), "p99_ms": quantile(&latencies, 0.99),
            "max_ms": quantile(&latencies, 1.0) }),
        )
    }

    /// Rates of other queues with as many workers.
    fn others(&self) -> Result<Value> {
        let rows = self.options.rows;
        others::fill_table(&self.server, &self.dsn, rows);
        let table = self.runtime.block_on(others::table(&self.dsn, WORKERS, self.span()))?;
        let rabbit = Rabbit::start();
        let rabbit = self.runtime.block_on(others::quorum_queue(&rabbit, WORKERS, rows, self.span()))?;
        let mut commits = Vec::new();
        let sqlite = Program::ours(self.binary).workers(WORKERS, false, &mut commits)?;
        Ok(json!({
            "skip_locked_jobs_per_s": table.round(),
            "quorum_queue_published_per_s": rabbit[0].round(), "quorum_queue_jobs_per_s": rabbit[1].round(),
            "sqlite_jobs_per_s": sqlite["ops_per_s"],
        }))
    }
}

/// Tells a result before the others are there.
fn note(name: &str, result: impl std::fmt::Display) {
    eprintln!("{name}: {result}");
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Statement that makes tables and functions of a queue known to a session. Functions have a schema of their
/// own, but for those of earlier programs.
fn search_path(schema: &str) -> String {
    format!(
        "SELECT set_config('search_path', concat_ws(', ', (SELECT string_agg(nspname, ', ') FROM pg_namespace
         WHERE nspname ~ '^{schema}_f[0-9a-f]{{8}}$'), '{schema}'), false)"
    )
}
