//! The progress line of finite work, kept as the last line of a terminal. Log lines appear above it.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use orchestrator_subsystem::ProgressSource;
use orchestrator_supervise::{StandardStream, Tree};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// Time between two updates.
const INTERVAL: Duration = Duration::from_secs(1);
/// Control sequence that erases the line.
const ERASE_LINE: &[u8] = b"\r\x1b[K";

/// True while the progress line is on the terminal, without a line end.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// The progress line.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    source: Option<ProgressSource>,
    updates: Option<Interval>,
    /// Time and counter of the last update.
    last: Option<(Instant, i64)>,
}

impl ProgressLine {
    /// Creates the line for `source`, shown only if standard error is a terminal. Needs a running arbiter.
    pub(crate) fn new(source: Option<ProgressSource>) -> Self {
        let is_shown = source.is_some() && io::stderr().is_terminal();
        let updates = is_shown.then(|| {
            let mut updates = interval(INTERVAL);
            updates.set_missed_tick_behavior(MissedTickBehavior::Delay);
            updates
        });
        Self { source, updates, last: None }
    }

    /// Waits for the next update; for ever if the line is not shown.
    pub(crate) async fn tick(&mut self) {
        match &mut self.updates {
            Some(updates) => drop(updates.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Rewrites the line from the metrics of `tree`.
    pub(crate) fn show(&mut self, tree: &Tree) {
        let Some(source) = &self.source else { return };
        let Some(node) = tree.node(source.child) else { return };
        let counter = node.metrics.iter().find(|metric| metric.name == source.counter);
        let (now, count) = (Instant::now(), counter.map_or(0, |metric| metric.value));
        let rate = self.last.replace((now, count)).map_or(0, |(then, before)| {
            let millis = i64::try_from(now.duration_since(then).as_millis()).unwrap_or(i64::MAX).max(1);
            count.saturating_sub(before).saturating_mul(1_000) / millis
        });
        let line = (source.line)(&node.metrics, rate);
        let mut is_shown = lock();
        StandardStream::Error.print([ERASE_LINE, line.as_bytes()].concat());
        *is_shown = true;
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        erase();
    }
}

pub(crate) fn erase() {
    if std::mem::take(&mut *lock()) {
        StandardStream::Error.print(ERASE_LINE);
    }
}

fn lock() -> MutexGuard<'static, bool> {
    IS_SHOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Standard error for logs. It erases the progress line before each write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut is_shown = lock();
        let erase = if std::mem::take(&mut *is_shown) { ERASE_LINE } else { b"" };
        StandardStream::Error.print([erase, bytes].concat());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
