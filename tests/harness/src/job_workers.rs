//! Queue workers that take and finish jobs until they are dropped, over kills of the queue.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep, spawn},
    time::Duration,
};

use crate::{Reply, Worker};

/// Delay after `NOJOBS` and after a lost connection.
const PAUSE: Duration = Duration::from_millis(5);

/// Workers in threads of their own.
#[derive(Debug)]
pub struct JobWorkers {
    stop: Arc<AtomicBool>,
    taken: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl JobWorkers {
    /// Starts `count` workers. `run` does a job, given its attribute path and payload, and returns the exit
    /// code.
    pub fn start(
        socket: PathBuf,
        count: usize,
        run: impl Fn(&str, &str) -> i64 + Send + Sync + 'static,
    ) -> Self {
        let (stop, taken) = (Arc::<AtomicBool>::default(), Arc::<Mutex<BTreeMap<_, Vec<_>>>>::default());
        let run = Arc::new(run);
        let threads = (0..count).map(|_| {
            let (socket, stop, taken, run) = (socket.clone(), stop.clone(), taken.clone(), run.clone());
            spawn(move || {
                let mut report = None;
                while !stop.load(Relaxed) {
                    serve(&socket, &mut report, &stop, &|attr_path, payload| {
                        let mut taken = taken.lock().expect("no worker panics");
                        taken.entry(attr_path.to_owned()).or_default().push(payload.to_owned());
                        drop(taken);
                        run(attr_path, payload)
                    });
                    sleep(PAUSE);
                }
            })
        });
        let threads = threads.collect();
        Self { stop, taken, threads }
    }

    /// Number of attribute paths of the jobs that workers got.
    ///
    /// # Panics
    /// If a worker panicked.
    pub fn count(&self) -> usize {
        self.taken.lock().expect("no worker panics").len()
    }

    /// Payloads of the jobs that workers got, by attribute path.
    ///
    /// # Panics
    /// If a worker panicked.
    pub fn taken(&self) -> BTreeMap<String, Vec<String>> {
        self.taken.lock().expect("no worker panics").clone()
    }
}

impl Drop for JobWorkers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Takes jobs on one connection until it ends. `report` is the last job and its exit code until the queue has
/// answered to it.
fn serve(
    socket: &Path,
    report: &mut Option<(String, i64)>,
    stop: &AtomicBool,
    run: &dyn Fn(&str, &str) -> i64,
) {
    let Ok(mut worker) = Worker::connect(socket) else { return };
    while !stop.load(Relaxed) {
        let request = match &*report {
            Some((attr_path, code)) => format!("DONE {attr_path} {code}\n"),
            None => "READY\n".to_owned(),
        };
        if worker.send(request.as_bytes()).is_err() {
            return;
        }
        match worker.try_reply() {
            Ok(Reply::Job { attr_path, payload }) => {
                let code = run(&attr_path, &payload);
                *report = Some((attr_path, code));
            }
            Ok(Reply::NoJobs) => {
                *report = None;
                sleep(PAUSE);
            }
            Ok(Reply::Closed) | Err(_) => return,
        }
    }
}
