//! How far a producer is, as one line that stays in its place at a terminal. What is logged meanwhile stands above it.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use orchestrator_supervise::{FigureSnapshot, Tree};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// To the beginning of the line, and the rest of it gone.
const WIPE: &[u8] = b"\r\x1b[K";

/// Does the line stand there, without its end?
static SHOWN: AtomicBool = AtomicBool::new(false);

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    path: Option<String>,
    looks: Option<Interval>,
    /// When it was looked at last, and the jobs that were pushed by then.
    last: Option<(Instant, i64)>,
}

impl Progress {
    /// Shows the figures of the child at `path`, if there is one and somebody sits there. Needs a running arbiter.
    pub(crate) fn of(path: Option<String>) -> Self {
        let looks = path.is_some() && io::stderr().is_terminal();
        let looks = looks.then(|| {
            let mut looks = interval(EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            looks
        });
        Self { path, looks, last: None }
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
        let Some(node) = self.path.as_ref().and_then(|path| tree.node(path)) else { return };
        let value = |name: &str| value(&node.figures, name);
        let (now, pushed) = (Instant::now(), value("pushed"));
        let rate = self.last.replace((now, pushed)).map_or(0, |(then, before)| {
            let millis = i64::try_from(now.duration_since(then).as_millis()).unwrap_or(i64::MAX).max(1);
            pushed.saturating_sub(before).saturating_mul(1_000) / millis
        });
        let line =
            line(value("tcn"), value("stencil_pushed"), value("stencil_total"), rate, value("blocked") > 0);
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

fn value(figures: &[FigureSnapshot], name: &str) -> i64 {
    figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value)
}

fn line(tcn: i64, pushed: i64, total: i64, rate: i64, waits: bool) -> String {
    if waits {
        return format!(
            "TCN {tcn}: all is pushed, waiting for workers: `orchestrator producer status` says for what"
        );
    }
    let left = total.saturating_sub(pushed);
    let eta = if rate > 0 { format!(", {} s left", (left + rate - 1) / rate) } else { String::new() };
    format!("TCN {tcn}: {pushed} of {total} jobs of its stencil are pushed, {rate}/s{eta}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_left_at_this_speed() {
        assert_eq!(
            line(5, 40, 100, 25, false),
            "TCN 5: 40 of 100 jobs of its stencil are pushed, 25/s, 3 s left"
        );
        assert_eq!(line(5, 40, 100, 0, false), "TCN 5: 40 of 100 jobs of its stencil are pushed, 0/s");
        assert!(line(5, 100, 100, 0, true).starts_with("TCN 5: all is pushed, waiting"));
    }
}
