//! Frames from a detector through the ingester to workers, beside a bare relay between the same two: the
//! calibration K.
//!
//! Source and sinks are threads of this process, the ingester and the relay children of it, one after the
//! other: K, the ingester, K, and so on. The controller is played over a Redis of our own.

mod class;
mod load;
pub(crate) mod process;
mod relay;
mod sink;
mod subject;
mod wire;

use std::{net::TcpListener, path::Path, sync::mpsc::channel, thread, time::Duration};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use orchestrator_harness::Redis;
use serde_json::{Value, json};

use self::{
    load::Load,
    sink::{Seen, Sink},
    subject::{Ingester, Upstream},
};
pub(crate) use self::{
    process::{Process, threads_cpu_s},
    relay::Relay,
};
use crate::calibration::median;

/// Time after which everything sent by the source is in the workers' queues.
const SETTLED: Duration = Duration::from_secs(1);

/// Options of the ingester bench.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Events; the first starts the series
    #[arg(long, default_value_t = 300_000)]
    events: u64,
    /// Pixels of an event, bytes
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// All events to all workers, not in turn
    #[arg(long)]
    fan_out: bool,
    /// Times that the ingester is measured, each time between two of K
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Memory budget of one worker, MiB (default: that of the configuration)
    #[arg(long)]
    egress_mib: Option<u64>,
    /// Measure an idle ingester instead
    #[arg(long)]
    idle: bool,
    /// Memory of each event to all workers beside that of each to one, with workers that take nothing until
    /// all is sent: few events, that is; in place of all that
    #[arg(long)]
    memory: bool,
    /// Take the events from an ingester class in Python instead; the CPU time is that of the binary alone
    #[arg(long)]
    class: bool,
}

/// One run of either.
#[derive(Debug, Clone, Copy)]
struct Carried {
    /// From the first event to the last, at the sinks.
    seconds: f64,
    /// CPU time, user and system.
    cpu_s: f64,
    peak_mib: f64,
    start_ms: f64,
}

pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let redis = Redis::start();
    if options.idle {
        return idle(binary, &redis);
    }
    let &Options { events, bytes, workers, fan_out, .. } = options;
    ensure!(workers > 0 && events > workers as u64, "give each worker an event: raise --events");
    let load = Load { events, bytes, workers, fan_out, late: options.memory };
    if options.class {
        return class::run(binary, &redis, options.rounds, &load);
    }
    if options.memory {
        return memory(binary, &redis, options, load);
    }
    let mut k = vec![relayed(&load)?];
    let (mut ours, mut of_k, mut cpu_of_k) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let carried = ingested(binary, &redis, options, &load)?;
        let (before, after) = (*k.last().context("K was measured")?, relayed(&load)?);
        of_k.push((before.seconds + after.seconds) / 2.0 / carried.seconds);
        cpu_of_k.push(carried.cpu_s / ((before.cpu_s + after.cpu_s) / 2.0));
        ours.push(carried);
        k.push(after);
    }
    let of = |runs: &[Carried], figure: &dyn Fn(&Carried) -> f64| median(runs.iter().map(figure).collect());
    let rate = |run: &Carried| events as f64 / run.seconds;
    let cpu = |run: &Carried| run.cpu_s * 1e6 / events as f64;
    let gb = load.pixels() as f64 / 1e9;
    Ok(json!({
        "bench": "ingester", "events": events, "bytes": bytes, "workers": workers, "fan_out": fan_out,
        "k_events_per_s": of(&k, &rate).round(),
        "events_per_s": of(&ours, &rate).round(),
        "of_k": rounded(median(of_k.clone())),
        "of_k_each": of_k.into_iter().map(rounded).collect::<Vec<_>>(),
        "gb_per_s": rounded(of(&ours, &|run| gb / run.seconds)),
        "k_cpu_us_an_event": rounded(of(&k, &cpu)),
        "cpu_us_an_event": rounded(of(&ours, &cpu)),
        "cpu_of_k": rounded(median(cpu_of_k)),
        "cpu_s_a_gb": rounded(of(&ours, &|run| run.cpu_s / gb)),
        "peak_mib": of(&ours, &|run| run.peak_mib).round(),
        "start_ms": of(&ours, &|run| run.start_ms).round(),
    }))
}

/// Peak memory of all events to all workers, beside that of all to one.
fn memory(binary: &Path, redis: &Redis, options: &Options, load: Load) -> Result<Value> {
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let alone = Load { workers: 1, ..load };
        one.push(ingested(binary, redis, options, &alone)?.peak_mib);
        all.push(ingested(binary, redis, options, &Load { fan_out: true, ..load })?.peak_mib);
    }
    let (one, all) = (median(one), median(all));
    Ok(json!({
        "bench": "ingester-memory", "events": load.events, "bytes": load.bytes, "workers": load.workers,
        "peak_mib_one": rounded(one), "peak_mib_all": rounded(all), "of_one": rounded(all / one),
    }))
}

/// Processor time of an idle ingester over 20 s, and its startup time.
fn idle(binary: &Path, redis: &Redis) -> Result<Value> {
    let mut starts = Vec::new();
    for _ in 0..5 {
        starts.push(Ingester::start(binary, redis, Upstream::Detector(1), None)?.start_ms);
    }
    let ingester = Ingester::start(binary, redis, Upstream::Detector(1), None)?;
    thread::sleep(Duration::from_secs(2));
    let before = ingester.process.threads_cpu_s()?;
    let begun = std::time::Instant::now();
    thread::sleep(Duration::from_secs(20));
    let cpu = ingester.process.threads_cpu_s()? - before;
    Ok(json!({
        "bench": "ingester-idle",
        "cpu_percent": (cpu / begun.elapsed().as_secs_f64() * 1e5).round() / 1e3,
        "rss_mib": rounded(ingester.process.memory_mib("VmRSS")?),
        "start_ms": rounded(median(starts.clone())),
        "start_ms_each": starts.into_iter().map(rounded).collect::<Vec<_>>(),
    }))
}

/// One run of the ingester.
fn ingested(binary: &Path, redis: &Redis, options: &Options, load: &Load) -> Result<Carried> {
    let source = TcpListener::bind("127.0.0.1:0")?;
    let upstream = Upstream::Detector(source.local_addr()?.port());
    let egress = options.egress_mib.map(|mib| mib << 20);
    let ingester = Ingester::start(binary, redis, upstream, egress)?;
    let sinks = connect(load, ingester.port)?;
    ingester.wait_for_workers(load.workers);
    let mapping = ingester.begin_mapping();
    let assignments = load.assignments();
    let start_ms = ingester.start_ms;
    let carried = carry(load, &source, sinks, &ingester.process, || {
        assignments.iter().for_each(|entry| ingester.assign(&mapping, entry));
    })?;
    Ok(Carried { start_ms, ..carried })
}

/// One run of K.
fn relayed(load: &Load) -> Result<Carried> {
    let source = TcpListener::bind("127.0.0.1:0")?;
    let port = orchestrator_harness::free_port();
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["relay", "--upstream", &source.local_addr()?.port().to_string()]);
    command.args(["--listen", &port.to_string(), "--workers", &load.workers.to_string()]);
    if load.fan_out {
        command.arg("--fan-out");
    }
    let process = Process::start(&mut command)?;
    let sinks = connect(load, port)?;
    carry(load, &source, sinks, &process, || ())
}

fn connect(load: &Load, port: u16) -> Result<Vec<Sink>> {
    (0..load.workers).map(|worker| Sink::connect(worker, port)).collect()
}

/// Sends the load through `process`, whose source and sinks these are. What is to be assigned is so before
/// the first event leaves the source.
fn carry(
    load: &Load,
    source: &TcpListener,
    mut sinks: Vec<Sink>,
    process: &Process,
    assign: impl FnOnce(),
) -> Result<Carried> {
    let ((tell_connected, connected), (go, wait)) = (channel(), channel());
    let (seen, cpu_s, source) = thread::scope(|scope| -> Result<_> {
        let pushing = scope.spawn(move || load.push(source, &tell_connected, &wait));
        let (sinks, late) =
            if load.late { (&mut [][..], &mut sinks[..]) } else { (&mut sinks[..], &mut [][..]) };
        let take = |sink| scope.spawn(|| Sink::take(sink, load));
        let mut taking: Vec<_> = sinks.iter_mut().map(take).collect();
        connected.recv().context("the source is not dialled")?;
        let before = process.cpu_s()?;
        assign();
        go.send(())?;
        if load.late {
            while !pushing.is_finished() {
                thread::sleep(Duration::from_millis(10));
            }
            thread::sleep(SETTLED);
            taking.extend(late.iter_mut().map(take));
        }
        let seen = taking.into_iter().map(|taking| taking.join().map_err(|_| anyhow!("a sink panics"))?);
        let seen = seen.collect::<Result<Vec<Seen>>>()?;
        let cpu_s = process.cpu_s()? - before;
        Ok((seen, cpu_s, pushing.join().map_err(|_| anyhow!("the source panics"))??))
    })?;
    let pixels: u64 = seen.iter().map(|seen| seen.pixels).sum();
    ensure!(pixels == load.pixels(), "{pixels} of {} bytes have arrived", load.pixels());
    let first = seen.iter().map(|seen| seen.first).min().context("a sink")?;
    let last = seen.iter().map(|seen| seen.last).max().context("a sink")?;
    let peak_mib = process.memory_mib("VmHWM")?;
    sinks.into_iter().try_for_each(Sink::check_end)?;
    // Open until now, so that nobody sees an end.
    drop(source);
    Ok(Carried { seconds: (last - first).as_secs_f64(), cpu_s, peak_mib, start_ms: 0.0 })
}

fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}
