//! Cost of the admin endpoint: of an idle process without a page, and of ten open pages.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use orchestrator_harness::{Instance, TestEnv, Worker, eventually, http_tcp, wait_for};
use rustix::process::nice;
use serde_json::{Value, json};

use crate::{
    calibration::median,
    connection_flood::{beside, rounded},
};

/// Options of the bench.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Number of open pages
    #[arg(long, default_value_t = 10)]
    pages: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Interval in which a page reads the tree and the causes, as in `actors/admin/ui/`.
const READ: Duration = Duration::from_secs(2);
/// Reads between two reads of the charts.
const READS_PER_CHART: usize = 5;
/// Samples of an hour at full resolution.
const SAMPLES: f64 = 720.0;

/// Measures an idle queue with and without the endpoint, then a tree of about 100 nodes with open pages.
pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let mut all = idle(binary, options)?;
    let open = open(binary, options)?;
    let fields = all.as_object_mut().context("an object")?;
    fields.extend(open.as_object().cloned().unwrap_or_default());
    Ok(all)
}

/// Measures the idle process in turn without and with the endpoint.
fn idle(binary: &Path, options: &Options) -> Result<Value> {
    let env = TestEnv::new(std::path::absolute(binary)?).set("admin.listen=127.0.0.1:0");
    let mut bare = env.bare_command();
    bare.args(["run", "--set", "queue.database=bare.db", "--set", "queue.input_dir=bare"]);
    bare.args(["--set", "queue.socket=bare.sock", "--set", "admin.listen="]);
    let bare = Instance::spawn(bare);
    eventually("the worker socket", || Worker::connect(&env.path().join("bare.sock")).is_ok());
    let instance = env.start();
    let pids = [bare.pid(), instance.pid()];
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let before = pids.map(|pid| cpu_seconds(pid).unwrap_or_default());
        let start = Instant::now();
        thread::sleep(Duration::from_secs(options.seconds));
        let wall = start.elapsed().as_secs_f64();
        without.push((cpu_seconds(pids[0])? - before[0]) / wall);
        with.push((cpu_seconds(pids[1])? - before[1]) / wall);
    }
    let memory = [memory_mib(pids[0])?, memory_mib(pids[1])?];
    let info = http_tcp(env.admin_tcp(), "GET", "/v1/info", &["Accept: application/json"], "").json();
    let history = &info["history"];
    let kept = history["used_bytes"].as_f64().context("history.used_bytes")?;
    let samples = (options.seconds * options.rounds as u64) as f64 / 5.0;
    let percent = |share: f64| (share * 1e5).round() / 1e3;
    Ok(json!({
        "bench": "console",
        "idle_percent_without": percent(median(without.clone())),
        "idle_percent_with": percent(median(with.clone())),
        "idle_percent_more": percent(median(with) - median(without)),
        "idle_mib_more": rounded(memory[1] - memory[0]),
        "history_mib_of_an_hour": rounded(kept / 1024.0 / 1024.0 * (SAMPLES / samples).max(1.0)),
    }))
}

/// Measures the processor time and the latency of READY while pages are open.
fn open(binary: &Path, options: &Options) -> Result<Value> {
    let env = TestEnv::new(std::path::absolute(binary)?)
        .set("admin.listen=127.0.0.1:0")
        .set("provenance.transport=embedded")
        .set("provenance.sqlite.path=provenance.db");
    let instance = env.start();
    let address = env.admin_tcp();
    let nodes = wait_for("the tree", || {
        let tree = env.snapshot()?;
        tree.runs().then(|| tree.all().len())
    });
    let mut worker = env.worker();
    let (mut calm, mut ratios, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let p99 = beside(&mut worker, || thread::sleep(Duration::from_secs(options.seconds) / 4));
        let mut share = Ok(0.0);
        let with_pages = beside(&mut worker, || share = pages_of(address, instance.pid(), options));
        calm.push(p99);
        ratios.push(with_pages / p99);
        shares.push(share?);
    }
    // The worker alone costs as much in both measurements.
    let worker_alone = {
        let before = cpu_seconds(instance.pid())?;
        let start = Instant::now();
        beside(&mut worker, || thread::sleep(Duration::from_secs(options.seconds) / 4));
        (cpu_seconds(instance.pid())? - before) / start.elapsed().as_secs_f64()
    };
    Ok(json!({
        "nodes": nodes,
        "pages": options.pages,
        "descriptors": descriptors(instance.pid())?,
        "pages_percent": rounded((median(shares) - worker_alone) * 100.0),
        "ready_p99_us": median(calm).round(),
        "ready_with_pages": rounded(median(ratios)),
    }))
}

/// Keeps pages open for the measured time. Returns the share of a core that the process takes.
fn pages_of(address: SocketAddr, pid: u32, options: &Options) -> Result<f64> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pages: Vec<_> = (0..options.pages)
            .map(|page| {
                let over = &over;
                scope.spawn(move || {
                    let _ = nice(19);
                    Page::open(address)?.refresh(page, over)
                })
            })
            .collect();
        // The pages load before the measurement begins.
        thread::sleep(READ);
        let before = cpu_seconds(pid)?;
        let start = Instant::now();
        thread::sleep(Duration::from_secs(options.seconds));
        let share = (cpu_seconds(pid)? - before) / start.elapsed().as_secs_f64();
        over.store(true, SeqCst);
        for page in pages {
            page.join().expect("a page that ends")?;
        }
        Ok(share)
    })
}

/// An overview page of the console: a stream of events and requests in the intervals of the page.
struct Page {
    address: SocketAddr,
    _events: TcpStream,
}

impl Page {
    fn open(address: SocketAddr) -> Result<Self> {
        let mut events = TcpStream::connect(address)?;
        let request =
            format!("GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n");
        events.write_all(request.as_bytes())?;
        let mut status = [0; 12];
        events.read_exact(&mut status)?;
        anyhow::ensure!(&status == b"HTTP/1.1 200", "events: {}", String::from_utf8_lossy(&status));
        Ok(Self { address, _events: events })
    }

    fn refresh(&self, page: usize, over: &AtomicBool) -> Result<()> {
        let branches = ["queue", "provenance"];
        // The pages are not in step.
        thread::sleep(READ * page as u32 / 16);
        for read in 0.. {
            if over.load(SeqCst) {
                break;
            }
            self.get("/v1/tree")?;
            for branch in branches {
                self.get(&format!("/v1/why/{branch}"))?;
            }
            if read % READS_PER_CHART == 0 {
                for branch in branches {
                    self.get(&format!(
                        "/v1/history?path={branch}&below=true&sum=true&since=0&metric=rows,finished"
                    ))?;
                }
            }
            thread::sleep(READ);
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Result<()> {
        let reply = http_tcp(self.address, "GET", path, &["Accept: application/json"], "");
        anyhow::ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.body);
        Ok(())
    }
}

/// Processor time of all threads of a process, in seconds.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let line = fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += line.split(' ').next().context("a field")?.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e9)
}

/// Resident memory in MiB.
fn memory_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("a number")?.parse::<f64>()? / 1024.0)
}

/// Limit of open files, which the places of event readers follow.
fn descriptors(pid: u32) -> Result<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("the limit")?;
    Ok(line.split_whitespace().nth(3).context("a number")?.parse()?)
}
