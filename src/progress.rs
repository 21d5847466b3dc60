//! Progress of finite work, as one line that stays in its place at a terminal. Log lines appear above it.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use orchestrator_subsystem::Work;
use orchestrator_supervise::Tree;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::topology::ROOT;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// To the beginning of the line, and the rest of it gone.
const WIPE: &[u8] = b"\r\x1b[K";

/// Does the line stand there, without its end?
static SHOWN: AtomicBool = AtomicBool::new(false);

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    work: Option<(String, Work)>,
    looks: Option<Interval>,
    /// When it was looked at last, and the counter by then.
    last: Option<(Instant, i64)>,
}

impl Progress {
    /// Shows the progress of `work` if standard error is a terminal. Needs a running arbiter.
    pub(crate) fn of(work: Option<Work>) -> Self {
        let looks = work.is_some() && io::stderr().is_terminal();
        let looks = looks.then(|| {
            let mut looks = interval(EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            looks
        });
        let work = work.map(|work| (format!("{ROOT}/{}", work.child), work));
        Self { work, looks, last: None }
    }

    /// Waits until it is time for [`Self::show`]; for ever where nobody sits there.
    pub(crate) async fn tick(&mut self) {
        match &mut self.looks {
            Some(looks) => drop(looks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Writes the line anew.
    pub(crate) fn show(&mut self, tree: &Tree) {
        let Some((path, work)) = &self.work else { return };
        let Some(node) = tree.node(path) else { return };
        let counter = node.metrics.iter().find(|metric| metric.name == work.counter);
        let (now, count) = (Instant::now(), counter.map_or(0, |metric| metric.value));
        let rate = self.last.replace((now, count)).map_or(0, |(then, before)| {
            let millis = i64::try_from(now.duration_since(then).as_millis()).unwrap_or(i64::MAX).max(1);
            count.saturating_sub(before).saturating_mul(1_000) / millis
        });
        let line = (work.line)(&node.metrics, rate);
        let mut err = io::stderr().lock();
        SHOWN.store(true, Relaxed);
        // A terminal that is gone sees nothing.
        let _ = err.write_all(&[WIPE, line.as_bytes()].concat()).and_then(|()| err.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // The line goes with it.
        let _ = StandardError.write(b"");
    }
}

/// Standard error for logs: takes the line away before it writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut err = io::stderr().lock();
        if SHOWN.swap(false, Relaxed) {
            err.write_all(WIPE)?;
        }
        err.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
