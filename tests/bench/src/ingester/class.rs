//! Events of an ingester class in Python: CPU time of the binary for each, without that of Python.

use std::{path::Path, thread};

use anyhow::{Context, Result, anyhow, ensure};
use orchestrator_harness::Redis;
use serde_json::{Value, json};

use super::{
    connect,
    load::Load,
    rounded,
    sink::{Seen, Sink},
    subject::{Ingester, Upstream},
};
use crate::calibration::median;

struct Run {
    /// CPU time of the binary for an event, microseconds.
    cpu_us: f64,
    events_per_s: f64,
}

/// The figures. Each image has at least 8 bytes.
pub(super) fn run(binary: &Path, redis: &Redis, rounds: usize, load: &Load) -> Result<Value> {
    ensure!(load.bytes >= 8, "an image of the class has a number of 8 bytes: raise --bytes");
    let runs = (0..rounds).map(|_| once(binary, redis, load)).collect::<Result<Vec<_>>>()?;
    let cpu = |run: &Run| run.cpu_us;
    Ok(json!({
        "bench": "ingester-class", "events": load.events, "bytes": load.bytes, "workers": load.workers,
        "cpu_us_an_event": rounded(median(runs.iter().map(cpu).collect())),
        "cpu_us_an_event_each": runs.iter().map(cpu).map(rounded).collect::<Vec<_>>(),
        "events_per_s": median(runs.iter().map(|run| run.events_per_s).collect()).round(),
    }))
}

fn once(binary: &Path, redis: &Redis, load: &Load) -> Result<Run> {
    let ingester = Ingester::start(binary, redis, Upstream::Class(load.bytes), None)?;
    let mut sinks = connect(load, ingester.port)?;
    ingester.wait_for_workers(load.workers);
    let (mapping, assignments) = (ingester.begin_mapping(), load.assignments());
    let before = ingester.process.cpu_s()?;
    let seen = thread::scope(|scope| {
        let taking: Vec<_> = sinks.iter_mut().map(|sink| scope.spawn(|| sink.take(load))).collect();
        assignments.iter().for_each(|entry| ingester.assign(&mapping, entry));
        let seen = taking.into_iter().map(|taking| taking.join().map_err(|_| anyhow!("a sink panics"))?);
        seen.collect::<Result<Vec<Seen>>>()
    })?;
    let cpu_s = ingester.process.cpu_s()? - before;
    let pixels: u64 = seen.iter().map(|seen| seen.pixels).sum();
    ensure!(pixels == load.pixels(), "{pixels} of {} bytes have arrived", load.pixels());
    sinks.into_iter().try_for_each(Sink::check_end)?;
    let first = seen.iter().map(|seen| seen.first).min().context("a sink")?;
    let last = seen.iter().map(|seen| seen.last).max().context("a sink")?;
    let events = load.events as f64;
    Ok(Run { cpu_us: cpu_s * 1e6 / events, events_per_s: events / (last - first).as_secs_f64() })
}
