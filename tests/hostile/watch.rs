//! What is measured while a cell runs: the log, the tree, and the work of a subsystem that is not under attack.

use std::{
    fs::File,
    io::Read,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use orchestrator_harness::{Reply, Site, Worker};

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

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// One entry each [`PERIOD`], roughly.
    pub(crate) looks: Vec<Look>,
    /// How long each answer with the tree took.
    pub(crate) trees: Vec<Duration>,
    /// Requests for the tree that were not answered with one.
    pub(crate) no_tree: u64,
}

/// Threads that look at a running instance.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    looks: JoinHandle<Vec<Look>>,
    trees: JoinHandle<(Vec<Duration>, u64)>,
    worker: JoinHandle<Result<(), String>>,
}

impl Watch {
    /// Begins to look at the instance on `site`, whose worker socket has to be served.
    pub(crate) fn start(site: &Site, ask_tree: AskTree) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let round_trips = Arc::new(AtomicU64::new(0));
        let (log, worker) = (site.log_path(), site.worker());
        let looks = thread::spawn({
            let (stop, round_trips) = (stop.clone(), round_trips.clone());
            move || {
                let (mut looks, mut counter) = (Vec::new(), LineCounter::new(&log));
                while !stop.load(SeqCst) {
                    let lines = counter.count();
                    looks.push(Look { at: Instant::now(), lines, round_trips: round_trips.load(SeqCst) });
                    thread::sleep(PERIOD);
                }
                looks
            }
        });
        let trees = thread::spawn({
            let stop = stop.clone();
            move || {
                let (mut trees, mut missing) = (Vec::new(), 0);
                while !stop.load(SeqCst) {
                    let asked = Instant::now();
                    if ask_tree() {
                        trees.push(asked.elapsed())
                    } else {
                        missing += 1
                    }
                    thread::sleep(PERIOD);
                }
                (trees, missing)
            }
        });
        let worker = thread::spawn({
            let stop = stop.clone();
            move || work(worker, &stop, &round_trips)
        });
        Self { stop, looks, trees, worker }
    }

    /// Ends it.
    ///
    /// # Errors
    /// The worker lost its connection, or got no answer.
    pub(crate) fn end(self) -> Result<Seen, String> {
        self.stop.store(true, SeqCst);
        let (trees, no_tree) = self.trees.join().expect("a thread that does not panic");
        let looks = self.looks.join().expect("a thread that does not panic");
        self.worker.join().expect("a thread that does not panic")?;
        Ok(Seen { looks, trees, no_tree })
    }
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
