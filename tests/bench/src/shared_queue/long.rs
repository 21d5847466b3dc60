//! Measurements that take minutes: the rate while a transaction is held open, and dead rows.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use orchestrator_harness::wait_for;
use serde_json::{Value, json};

use super::{Bench, WORKERS, others, round};
use crate::subject::Subject;

impl Bench<'_> {
    /// The rate while a transaction that has seen the queue stays open, and without one, from the same
    /// beginning.
    pub(super) fn held(&self, seconds: u64) -> Result<Value> {
        let span = Duration::from_secs(seconds);
        let from_the_beginning = |schema: &str| -> Result<Subject> {
            let subject = self.filled(schema, "", self.options.rows)?.0;
            self.settle();
            Ok(subject)
        };
        let mut one = from_the_beginning("clean")?;
        let clean = self.work(&[&one], span)?;
        one.kill()?;
        let one = from_the_beginning("held")?;
        let mut idle = Command::new("psql");
        idle.arg(&self.dsn).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut idle = idle.spawn()?;
        let mut statements = idle.stdin.take().context("the input of psql")?;
        statements.write_all(b"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM held.ready;\n")?;
        let sees = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND backend_xmin IS NOT NULL";
        wait_for("the transaction", || self.number(sees).is_ok_and(|count| count == 1.0).then_some(()));
        let held = self.work(&[&one], span)?;
        drop(statements);
        idle.wait()?;
        Ok(json!({
            "bench": "shared-queue", "seconds": seconds, "clean_jobs_per_s": clean.0.round(), "held_jobs_per_s": held.0.round(),
            "of_clean": round(held.0 / clean.0), "clean_p99_ms": round(clean.1), "held_p99_ms": round(held.1),
        }))
    }

    /// Dead rows and sizes after `minutes` of work, in which a fetcher lists all paths again and again.
    pub(super) fn dead_rows(&self, minutes: u64) -> Result<Value> {
        let rows = self.options.rows.min(60_000);
        let sizes = |schema: &str| {
            self.script(&format!(
                "SELECT pg_stat_force_next_flush(); SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid) / 1024 AS kib
                 FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND n_tup_del + n_tup_upd > 0 ORDER BY n_dead_tup DESC"
            ))
        };
        let span = Duration::from_secs(minutes * 60);
        let (subject, _) = self.filled("ours", "", rows)?;
        let (begun, mut jobs, mut run) = (Instant::now(), 0.0, 1);
        while begun.elapsed() < span {
            jobs += self.work(&[&subject], self.span())?.0 * self.span().as_secs_f64();
            run += 1;
            subject.publish("../staged.1.txt", rows)?;
            self.publish(&subject, "ours", &format!("bench.{run}.txt"), rows)?;
            std::fs::remove_file(subject.path(&format!("fetchers/bench.{}.txt", run - 1)))?;
        }
        let ours = sizes("ours");
        drop(subject);
        let (begun, mut taken) = (Instant::now(), 0.0);
        while begun.elapsed() < span {
            others::fill_table(&self.server, &self.dsn, rows);
            taken += self.runtime.block_on(others::table(&self.dsn, WORKERS, self.span()))?
                * self.span().as_secs_f64();
        }
        Ok(json!({
            "bench": "shared-queue", "minutes": minutes, "jobs": jobs.round(), "runs": run,
            "tables": ours.split_whitespace().collect::<Vec<_>>(),
            "skip_locked_jobs": taken.round(), "skip_locked": sizes("public").split_whitespace().collect::<Vec<_>>(),
        }))
    }
}
