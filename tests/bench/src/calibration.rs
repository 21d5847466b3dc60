//! Speed of the machine at this moment, to calibrate every result.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use orchestrator_harness::original;
use rusqlite::Connection;

use crate::subject::row;

const SPAN: Duration = Duration::from_millis(1_500);

/// Durable single-row WAL commits a second on the disk of `directory`.
pub(crate) fn durable_commits(directory: &Path) -> Result<f64> {
    let directory = tempfile::tempdir_in(directory)?;
    let db = Connection::open(directory.path().join("calibration.db"))?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT) STRICT")?;
    let mut insert = db.prepare("INSERT INTO t (b) VALUES ('some attr.path and its payload 1.0 1.1')")?;
    let start = Instant::now();
    let mut commits = 0_u32;
    while start.elapsed() < SPAN {
        insert.execute([])?;
        commits += 1;
    }
    Ok(f64::from(commits) / start.elapsed().as_secs_f64())
}

/// Rows a second that SQLite itself takes into the original's tables: prepared, in file order, 1,000 rows a
/// durable commit, nobody asking meanwhile.
pub(crate) fn raw_rows(directory: &Path, rows: usize) -> Result<f64> {
    let directory = tempfile::tempdir_in(directory)?;
    let path = directory.path().join("calibration.db");
    original::create(
        &path,
        2,
        2,
        "INSERT INTO fetchers VALUES (1, 'bench'); INSERT INTO fetcher_runs VALUES (1, 1, 0)",
    );
    let db = Connection::open(&path)?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    let mut insert = db.prepare(
        "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter)
         VALUES (1, 1, ?1, ?2, ?3)",
    )?;
    let start = Instant::now();
    for first in (0..rows).step_by(1_000) {
        let commit = db.unchecked_transaction()?;
        for i in first..rows.min(first + 1_000) {
            // As scattered as the hash that the order goes by.
            let jitter = ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34) as i64;
            insert.execute((row::attr_path(i), row::payload(i), jitter))?;
        }
        commit.commit()?;
    }
    Ok(rows as f64 / start.elapsed().as_secs_f64())
}

/// Round trips of a short line over a unix socket a second, with one echoing thread.
pub(crate) fn echo_round_trips() -> Result<f64> {
    let (client, server) = UnixStream::pair()?;
    let echo = thread::spawn(move || -> std::io::Result<()> {
        let mut reader = BufReader::new(server);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            reader.get_mut().write_all(line.as_bytes())?;
            line.clear();
        }
        Ok(())
    });
    let mut reader = BufReader::new(client);
    let mut line = String::new();
    let start = Instant::now();
    let mut trips = 0_u32;
    while start.elapsed() < SPAN {
        reader.get_mut().write_all(b"DONE some.attr.path 0\n")?;
        line.clear();
        reader.read_line(&mut line)?;
        trips += 1;
    }
    let rate = f64::from(trips) / start.elapsed().as_secs_f64();
    drop(reader);
    echo.join().expect("the echo does not panic")?;
    Ok(rate)
}

/// Ratio of each value to the mean of the calibrations before and after it.
pub(crate) fn of_neighbours(values: &[f64], calibrations: &[f64]) -> Vec<f64> {
    values
        .iter()
        .zip(calibrations.windows(2))
        .map(|(value, k)| value / (k.iter().sum::<f64>() / 2.0))
        .collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
