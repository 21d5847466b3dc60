//! Progress on standard error.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// Interval between two updates of a terminal's line.
const ON_TERMINAL: Duration = Duration::from_millis(200);
/// Interval between two lines in a file.
const IN_FILE: Duration = Duration::from_secs(2);

/// Progress of one step: an action and the rows of a table. A step that ends before the first interval is not
/// shown.
pub(super) struct Progress {
    step: String,
    total: u64,
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(super) fn new(step: String, total: u64) -> Self {
        Self { step, total, began: Instant::now(), shown: None }
    }

    /// Shows that `done` rows are done, if it is time.
    pub(super) fn update(&mut self, done: u64) {
        let every = if io::stderr().is_terminal() { ON_TERMINAL } else { IN_FILE };
        if self.shown.unwrap_or(self.began).elapsed() >= every {
            self.shown = Some(Instant::now());
            self.show(done, false);
        }
    }

    /// Shows the end of the step.
    pub(super) fn end(&self, done: u64) {
        if self.shown.is_some() {
            self.show(done, true);
        }
    }

    fn show(&self, done: u64, last: bool) {
        let mut screen = io::stderr();
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        let text = format!("{}: {done} of {} rows, {rate:.0} rows/s", self.step, self.total.max(done));
        // Without standard error, only the result is shown.
        let _ = match (screen.is_terminal(), last) {
            (true, false) => write!(screen, "\r{text:<78}"),
            (true, true) => writeln!(screen, "\r{text:<78}"),
            (false, _) => writeln!(screen, "{text}"),
        };
    }
}
