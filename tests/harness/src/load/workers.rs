//! Fast queue workers. Half of them keep a connection and sometimes pipeline two requests; half connect for
//! each request, as `socat` does. Each holds up to three jobs. After a connection error a DONE is repeated
//! until it is answered, as the contract requires. Every DONE has a unique exit code.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{SeededRng, fetchers::parse_payload};
use crate::{Reply, Worker};

/// Most jobs that a worker holds.
const HELD_MAX: usize = 3;

/// A job that a worker read from its connection.
#[derive(Debug, Clone)]
pub struct Handout {
    /// Index of the worker that received it.
    pub worker: usize,
    /// Index of that worker's socket.
    pub instance: usize,
    /// The file's stem, from the payload.
    pub fetcher: String,
    /// The file's number, from the payload.
    pub run: i64,
    /// The attribute path.
    pub attr: String,
    /// Time when its request was sent.
    pub sent: Instant,
    /// Time when it was received.
    pub read: Instant,
    /// Time of this worker's next answer of any kind: by then the queue knew that the job was delivered.
    pub next_read: Option<Instant>,
    /// Time of the first DONE.
    pub done_sent: Option<Instant>,
}

/// A DONE that was answered.
#[derive(Debug, Clone)]
pub struct Done {
    /// The job that is done.
    pub job: Handout,
    /// The exit code, different for every DONE.
    pub code: i64,
    /// Time when it was last sent.
    pub sent: Instant,
    /// Time when its answer was received.
    pub acked: Instant,
}

/// Observations of the workers of a pool.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Per worker, in order.
    pub handouts: Vec<Handout>,
    /// Per worker, in order.
    pub dones: Vec<Done>,
    /// Answers of any kind.
    pub answers: u64,
    /// Longest time from a request to its answer.
    pub longest_wait: Duration,
}

/// Workers, each in its own thread.
#[derive(Debug)]
pub struct WorkerPool {
    workers: Vec<JoinHandle<Seen>>,
    drain: Arc<AtomicBool>,
    answers: Vec<Arc<AtomicU64>>,
}

impl WorkerPool {
    /// Starts `count` workers, each on one of `sockets` in turn.
    pub fn start(sockets: &[PathBuf], count: usize, rng: &mut SeededRng) -> Self {
        let (drain, codes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(1)));
        let answers: Vec<Arc<AtomicU64>> = sockets.iter().map(|_| Arc::default()).collect();
        let workers = (0..count).map(|id| {
            let instance = id % sockets.len();
            let mut one = One {
                id,
                instance,
                socket: sockets[instance].clone(),
                answers: answers[instance].clone(),
                keeps: (id / sockets.len()).is_multiple_of(2),
                connection: None,
                held: Vec::new(),
                seen: Seen::default(),
                codes: codes.clone(),
                rng: rng.split(),
            };
            let drain = drain.clone();
            thread::spawn(move || {
                one.work(&drain);
                one.seen
            })
        });
        Self { workers: workers.collect(), drain, answers }
    }

    /// Number of answers so far on each socket.
    pub fn answers(&self) -> Vec<u64> {
        self.answers.iter().map(|answers| answers.load(SeqCst)).collect()
    }

    /// Lets every worker finish its jobs and continue until NOJOBS. Returns all observations.
    ///
    /// # Panics
    /// If a worker panicked.
    pub fn drain(self) -> Seen {
        self.drain.store(true, SeqCst);
        let mut all = Seen::default();
        for worker in self.workers {
            let seen = worker.join().expect("a worker that ends");
            all.handouts.extend(seen.handouts);
            all.dones.extend(seen.dones);
            all.answers += seen.answers;
            all.longest_wait = all.longest_wait.max(seen.longest_wait);
        }
        all
    }
}

struct One {
    id: usize,
    instance: usize,
    socket: PathBuf,
    answers: Arc<AtomicU64>,
    keeps: bool,
    connection: Option<Worker>,
    /// Positions in `seen.handouts`.
    held: Vec<usize>,
    seen: Seen,
    codes: Arc<AtomicI64>,
    rng: SeededRng,
}

impl One {
    fn work(&mut self, drain: &AtomicBool) {
        loop {
            let draining = drain.load(SeqCst);
            let room = HELD_MAX - self.held.len();
            let reply = if room < HELD_MAX && (room == 0 || draining || self.rng.chance(50)) {
                self.done()
            } else if self.keeps && room > 1 && !draining && self.rng.chance(20) {
                self.pipeline()
            } else {
                // An unanswered READY needs no repetition.
                self.ask("READY\n").ok()
            };
            match reply {
                Some((sent, Reply::Job { attr_path, payload })) => self.take(sent, attr_path, &payload),
                Some((_, Reply::NoJobs)) if draining && self.held.is_empty() => return,
                // No job or no connection: a busy loop would only slow the others.
                Some((_, Reply::NoJobs | Reply::Closed)) | None => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn take(&mut self, sent: Instant, attr: String, payload: &str) {
        let (fetcher, run) = parse_payload(payload);
        self.held.push(self.seen.handouts.len());
        let Self { id: worker, instance, .. } = *self;
        let (read, next_read, done_sent) = (Instant::now(), None, None);
        let handout = Handout { worker, instance, fetcher, run, attr, sent, read, next_read, done_sent };
        self.seen.handouts.push(handout);
    }

    /// Reports one held job as done and repeats it until it is answered.
    fn done(&mut self) -> Option<(Instant, Reply)> {
        let held = self.held.swap_remove(self.rng.below(self.held.len()));
        self.seen.handouts[held].done_sent = Some(Instant::now());
        let code = self.codes.fetch_add(1, SeqCst);
        let line = format!("DONE {} {code}\n", self.seen.handouts[held].attr);
        let (sent, reply) = crate::wait_for("an answer to DONE", || self.ask(&line).ok());
        let job = self.seen.handouts[held].clone();
        self.seen.dones.push(Done { job, code, sent, acked: Instant::now() });
        Some((sent, reply))
    }

    /// Pipelines two requests on a kept connection and returns the second answer.
    fn pipeline(&mut self) -> Option<(Instant, Reply)> {
        let (sent, first) = self.ask("READY\nREADY\n").ok()?;
        if let Reply::Job { attr_path, payload } = first {
            self.take(sent, attr_path, &payload);
        }
        let second = self.connection.as_mut()?.try_reply().and_then(answered);
        self.note(second.map(|reply| (sent, reply))).ok()
    }

    /// Sends one request. Returns its time and the answer; a missing answer is an error.
    fn ask(&mut self, line: &str) -> io::Result<(Instant, Reply)> {
        let asked = self.try_ask(line);
        self.note(asked)
    }

    fn note(&mut self, asked: io::Result<(Instant, Reply)>) -> io::Result<(Instant, Reply)> {
        if let Ok((sent, _)) = &asked {
            let now = Instant::now();
            if let Some(last) = self.seen.handouts.last_mut().filter(|last| last.next_read.is_none()) {
                last.next_read = Some(now);
            }
            self.seen.answers += 1;
            self.answers.fetch_add(1, SeqCst);
            self.seen.longest_wait = self.seen.longest_wait.max(now - *sent);
        }
        if asked.is_err() || !self.keeps {
            self.connection = None;
        }
        asked
    }

    fn try_ask(&mut self, line: &str) -> io::Result<(Instant, Reply)> {
        if self.connection.is_none() {
            self.connection = Some(Worker::connect(&self.socket)?);
        }
        let connection = self.connection.as_mut().expect("just made");
        let sent = Instant::now();
        connection.send(line.as_bytes())?;
        if !self.keeps {
            connection.try_finish()?;
        }
        Ok((sent, connection.try_reply().and_then(answered)?))
    }
}

/// Turns a closed connection into an error.
fn answered(reply: Reply) -> io::Result<Reply> {
    match reply {
        Reply::Closed => Err(io::ErrorKind::ConnectionAborted.into()),
        reply => Ok(reply),
    }
}
