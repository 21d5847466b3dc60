//! Monitors an instance: its log, its tree, and a queue worker.

use std::{
    fs::File,
    io::Read,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use orchestrator_harness::{Reply, TestEnv, Worker};

/// Sampling interval.
const PERIOD: Duration = Duration::from_millis(50);

/// Pause of the worker between two round trips, to leave the processor to the attack.
const REST: Duration = Duration::from_millis(5);

/// Requests the tree. Returns false if that fails.
pub(crate) type AskTree = Box<dyn Fn() -> bool + Send>;

/// Sample of the log and the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time of the sample.
    pub(crate) at: Instant,
    /// Lines in the log.
    pub(crate) lines: u64,
    /// Worker round trips so far.
    pub(crate) round_trips: u64,
}

/// Observations so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// About one sample per [`PERIOD`].
    pub(crate) samples: Vec<Sample>,
    /// Time of each tree request, and its latency or None if it failed.
    pub(crate) trees: Vec<(Instant, Option<Duration>)>,
    /// Reason why the worker lost its connection.
    pub(crate) worker_lost: Option<String>,
}

impl Seen {
    /// Median latency of the tree requests from `begun` to `end`.
    pub(crate) fn median_tree(&self, begun: Instant, end: Instant) -> Option<Duration> {
        let asked = self.trees.iter().filter(|(at, _)| (begun..=end).contains(at));
        let mut took: Vec<_> = asked.filter_map(|(_, took)| *took).collect();
        took.sort();
        took.get(took.len() / 2).copied()
    }

    /// Worker round trips from `begun` to `end`.
    pub(crate) fn round_trips(&self, begun: Instant, end: Instant) -> u64 {
        let until = |at: Instant| {
            self.samples
                .iter()
                .take_while(|sample| sample.at <= at)
                .last()
                .map_or(0, |sample| sample.round_trips)
        };
        until(end) - until(begun)
    }

    /// Largest number of log lines within any `window` after `begun`.
    pub(crate) fn most_lines(&self, begun: Instant, window: Duration) -> u64 {
        let samples = self.samples.iter().filter(|sample| sample.at >= begun);
        let lines = samples.clone().map(|first| {
            let inside = samples.clone().take_while(|sample| sample.at <= first.at + window);
            inside.last().map_or(0, |last| last.lines - first.lines)
        });
        lines.max().unwrap_or_default()
    }
}

/// Threads that monitor an instance.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Begins to sample at the instance on `site`, whose worker socket has to be served.
    pub(crate) fn start(env: &TestEnv, ask_tree: AskTree) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Seen>>::default());
        let round_trips = Arc::new(AtomicU64::new(0));
        let mut watch = Self { stop, seen, threads: Vec::new() };
        let (mut log, worker, count) = (LineCounter::new(&env.log_path()), env.worker(), round_trips.clone());
        watch.repeat(move |seen| {
            let sample = Sample { at: Instant::now(), lines: log.count(), round_trips: count.load(SeqCst) };
            lock(seen).samples.push(sample);
        });
        watch.repeat(move |seen| {
            let asked = Instant::now();
            let answered = ask_tree();
            lock(seen).trees.push((asked, answered.then(|| asked.elapsed())));
        });
        let (stop, seen) = (watch.stop.clone(), watch.seen.clone());
        watch.threads.push(thread::spawn(move || {
            if let Err(lost) = work(worker, &stop, &round_trips) {
                lock(&seen).worker_lost = Some(lost);
            }
        }));
        watch
    }

    fn repeat(&mut self, mut sample: impl FnMut(&Mutex<Seen>) + Send + 'static) {
        let (stop, seen) = (self.stop.clone(), self.seen.clone());
        self.threads.push(thread::spawn(move || {
            while !stop.load(SeqCst) {
                sample(&seen);
                thread::sleep(PERIOD);
            }
        }));
    }

    /// Observations so far.
    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Stops the threads and returns the observations.
    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, SeqCst);
        for thread in self.threads {
            thread.join().expect("a thread that does not panic");
        }
        lock(&self.seen).clone()
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the lines of a growing log.
struct LineCounter {
    log: File,
    lines: u64,
}

impl LineCounter {
    fn new(path: &Path) -> Self {
        Self { log: File::open(path).expect("the log"), lines: 0 }
    }

    fn count(&mut self) -> u64 {
        let mut more = Vec::new();
        self.log.read_to_end(&mut more).expect("the log");
        self.lines += more.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.lines
    }
}

/// Sends READY once, then DONE repeatedly: of the current job, or of the last one again, which is also
/// answered.
fn work(mut worker: Worker, stop: &AtomicBool, round_trips: &AtomicU64) -> Result<(), String> {
    let lost = |error| format!("the monitored worker lost its connection: {error}");
    let mut attr_path = "none".to_owned();
    let mut request = "READY\n".to_owned();
    while !stop.load(SeqCst) {
        worker.send(request.as_bytes()).map_err(lost)?;
        match worker.try_reply().map_err(lost)? {
            Reply::Job { attr_path: next, .. } => attr_path = next,
            Reply::NoJobs => {}
            Reply::Closed => return Err("the monitored worker was disconnected".to_owned()),
        }
        round_trips.fetch_add(1, SeqCst);
        request = format!("DONE {attr_path} 0\n");
        thread::sleep(REST);
    }
    Ok(())
}
