//! What is measured while a cell runs: the log, the tree, and the work of a subsystem that is not under attack.

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

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(50);

/// Rest of the worker between two round trips, so that it takes no processor from the attack.
const REST: Duration = Duration::from_millis(5);

/// Asks for the tree; false if it was not answered with one.
pub(crate) type AskTree = Box<dyn Fn() -> bool + Send>;

/// One look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// When.
    pub(crate) at: Instant,
    /// Lines in the log.
    pub(crate) lines: u64,
    /// Round trips of the worker so far.
    pub(crate) round_trips: u64,
}

/// All that was seen so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// One entry each [`PERIOD`], roughly.
    pub(crate) looks: Vec<Look>,
    /// When the tree was asked for, and how long its answer took; None: there was none.
    pub(crate) trees: Vec<(Instant, Option<Duration>)>,
    /// Why the worker ended: it was sent away, or its connection was lost.
    pub(crate) worker_lost: Option<String>,
}

impl Seen {
    /// Half of the trees that were asked for from `begun` to `end` took no longer than this.
    pub(crate) fn median_tree(&self, begun: Instant, end: Instant) -> Option<Duration> {
        let asked = self.trees.iter().filter(|(at, _)| (begun..=end).contains(at));
        let mut took: Vec<_> = asked.filter_map(|(_, took)| *took).collect();
        took.sort();
        took.get(took.len() / 2).copied()
    }

    /// Round trips of the worker from `begun` to `end`.
    pub(crate) fn round_trips(&self, begun: Instant, end: Instant) -> u64 {
        let until = |at: Instant| {
            self.looks.iter().take_while(|look| look.at <= at).last().map_or(0, |look| look.round_trips)
        };
        until(end) - until(begun)
    }

    /// Most lines that the log got within `window`, from `begun` on.
    pub(crate) fn most_lines(&self, begun: Instant, window: Duration) -> u64 {
        let looks = self.looks.iter().filter(|look| look.at >= begun);
        let lines = looks.clone().map(|first| {
            let inside = looks.clone().take_while(|look| look.at <= first.at + window);
            inside.last().map_or(0, |last| last.lines - first.lines)
        });
        lines.max().unwrap_or_default()
    }
}

/// Threads that look at a running instance.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at the instance on `site`, whose worker socket has to be served.
    pub(crate) fn start(env: &TestEnv, ask_tree: AskTree) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Seen>>::default());
        let round_trips = Arc::new(AtomicU64::new(0));
        let mut watch = Self { stop, seen, threads: Vec::new() };
        let (mut log, worker, count) = (LineCounter::new(&env.log_path()), env.worker(), round_trips.clone());
        watch.repeat(move |seen| {
            let look = Look { at: Instant::now(), lines: log.count(), round_trips: count.load(SeqCst) };
            lock(seen).looks.push(look);
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

    fn repeat(&mut self, mut look: impl FnMut(&Mutex<Seen>) + Send + 'static) {
        let (stop, seen) = (self.stop.clone(), self.seen.clone());
        self.threads.push(thread::spawn(move || {
            while !stop.load(SeqCst) {
                look(&seen);
                thread::sleep(PERIOD);
            }
        }));
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Ends it.
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

/// Counts the lines of a log that grows.
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

/// READY once, then DONE again and again: a job if there is one, else the last one once more, which is answered all the same.
fn work(mut worker: Worker, stop: &AtomicBool, round_trips: &AtomicU64) -> Result<(), String> {
    let lost = |error| format!("the worker beside it lost its connection: {error}");
    let mut attr_path = "none".to_owned();
    let mut request = "READY\n".to_owned();
    while !stop.load(SeqCst) {
        worker.send(request.as_bytes()).map_err(lost)?;
        match worker.try_reply().map_err(lost)? {
            Reply::Job { attr_path: next, .. } => attr_path = next,
            Reply::NoJobs => {}
            Reply::Closed => return Err("the worker beside it was sent away".to_owned()),
        }
        round_trips.fetch_add(1, SeqCst);
        request = format!("DONE {attr_path} 0\n");
        thread::sleep(REST);
    }
    Ok(())
}
