//! Jobs of the demo: a fetcher that lists them in files, and workers that take them over the socket.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Connections that take jobs.
pub(super) const WORKERS: usize = 8;
/// Lines of a file.
const LINES: usize = 500;
/// Time between two files.
const PERIOD: Duration = Duration::from_secs(1);
/// Duration of a job.
const WORK: Duration = Duration::from_millis(8);
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Longest wait for the next of the jobs that are left when the load has ended. A slow machine takes long for
/// all of them.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Pause after `NOJOBS` or a broken connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Every listed job with the number of its hand-outs, and whether it is done.
#[derive(Debug, Default)]
struct Job {
    hand_outs: usize,
    done: bool,
}

pub(super) struct Jobs {
    folder: PathBuf,
    socket: PathBuf,
    listed: Mutex<HashMap<String, Job>>,
    done: AtomicUsize,
    /// Set once all jobs are done, or the time for that is over.
    over: AtomicBool,
}

impl Jobs {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            socket: folder.join("worker.sock"),
            listed: Mutex::default(),
            done: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<String, Job>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a file each second, complete from its first appearance.
    pub(super) fn list(&self, stop: &AtomicBool) {
        for number in 1.. {
            if stop.load(Relaxed) {
                return;
            }
            let paths: Vec<String> = (0..LINES).map(|line| format!("demo{number}.package{line}")).collect();
            let text: String = paths.iter().map(|path| format!("{path} 1.0 1.1\n")).collect();
            let written = self.folder.join("next.txt");
            // The directory may be away: then the same file is tried again. Its jobs count once it is there.
            let name = format!("demo{number}.1.txt");
            while fs::write(&written, &text)
                .and_then(|()| fs::rename(&written, self.folder.join("fetchers").join(&name)))
                .is_err()
            {
                if stop.load(Relaxed) {
                    return;
                }
                thread::sleep(PAUSE);
            }
            self.jobs().extend(paths.into_iter().map(|path| (path, Job::default())));
            thread::sleep(PERIOD);
        }
    }

    /// Takes jobs and reports them as done; connects again when the connection breaks.
    pub(super) fn work(&self) {
        let mut request = "READY\n".to_owned();
        while !self.over.load(Relaxed) {
            // The request is repeated on the next connection: a DONE counts whoever sends it.
            let _ = self.serve(&mut request);
            thread::sleep(PAUSE);
        }
    }

    fn serve(&self, request: &mut String) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut answers = BufReader::new(stream.try_clone()?);
        while !self.over.load(Relaxed) {
            stream.write_all(request.as_bytes())?;
            let mut answer = String::new();
            if answers.read_line(&mut answer)? == 0 {
                return Ok(());
            }
            if let Some(path) = request.strip_prefix("DONE ").and_then(|rest| rest.split(' ').next()) {
                self.mark_done(path);
            }
            *request = match answer.strip_prefix("JOB ").and_then(|job| job.split(' ').next()) {
                Some(path) => {
                    if let Some(job) = self.jobs().get_mut(path) {
                        job.hand_outs += 1;
                    }
                    thread::sleep(WORK);
                    format!("DONE {path} 0\n")
                }
                None => {
                    thread::sleep(PAUSE);
                    "READY\n".to_owned()
                }
            };
        }
        Ok(())
    }

    fn mark_done(&self, path: &str) {
        if let Some(job) = self.jobs().get_mut(path)
            && !std::mem::replace(&mut job.done, true)
        {
            self.done.fetch_add(1, Relaxed);
        }
    }

    /// Waits until every listed job is done, and none of the other jobs is `open`, or none was done for
    /// [`DRAIN_MAX`]; then ends the workers.
    pub(super) fn drain(&self, open: impl Fn() -> usize) {
        let left = || self.listed() - self.done() + open();
        let (mut last, mut since) = (left(), Instant::now());
        while last > 0 && since.elapsed() < DRAIN_MAX {
            thread::sleep(PAUSE);
            let now = left();
            if now < last {
                (last, since) = (now, Instant::now());
            }
        }
        self.over.store(true, Relaxed);
    }

    pub(super) fn listed(&self) -> usize {
        self.jobs().len()
    }

    pub(super) fn done(&self) -> usize {
        self.done.load(Relaxed)
    }

    pub(super) fn repeated(&self) -> usize {
        self.jobs().values().map(|job| job.hand_outs.saturating_sub(1)).sum()
    }

    pub(super) fn progress(&self) -> String {
        format!("{} of {} jobs done", self.done(), self.listed())
    }
}
