//! Standard error of the process: each line goes to the log, and the last line explains an exit.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use orchestrator_text::sanitize;
use tokio::{io::AsyncReadExt, process::ChildStderr};

use super::redaction::Redaction;

/// Bytes of one read.
const BLOCK: usize = 4 << 10;
/// Longest line, bytes; the rest of a longer one is left out.
const LINE_MAX: usize = 2 << 10;
/// Most lines in one period.
const LINES_MAX: u32 = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Last line with text.
#[derive(Debug, Default)]
pub(super) struct LastLine(RefCell<String>);

impl LastLine {
    /// The line, escaped and limited.
    pub(super) fn text(&self) -> String {
        self.0.borrow().clone()
    }
}

/// Logs all lines of `stderr` under `path` until it is closed.
pub(super) async fn log(mut stderr: ChildStderr, path: &str, redaction: &Redaction, last: &LastLine) {
    let (mut block, mut line) = ([0; BLOCK], Vec::new());
    let mut lines = Lines { path, redaction, since: Instant::now(), logged: 0, left_out: 0 };
    while let Ok(count @ 1..) = stderr.read(&mut block).await {
        for byte in &block[..count] {
            match byte {
                b'\n' => lines.end(&mut line, last),
                other if line.len() < LINE_MAX => line.push(*other),
                _ => {}
            }
        }
    }
    lines.end(&mut line, last);
    lines.report_left_out();
}

/// Lines of the current period.
struct Lines<'a> {
    path: &'a str,
    redaction: &'a Redaction,
    since: Instant,
    logged: u32,
    left_out: u64,
}

impl Lines<'_> {
    fn end(&mut self, line: &mut Vec<u8>, last: &LastLine) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return line.clear();
        }
        if self.since.elapsed() >= PERIOD {
            self.report_left_out();
            (self.since, self.logged) = (Instant::now(), 0);
        }
        let text = sanitize(self.redaction.apply(line));
        line.clear();
        if self.logged < LINES_MAX {
            self.logged += 1;
            tracing::info!(path = self.path, "python: {text}");
        } else {
            self.left_out += 1;
        }
        *last.0.borrow_mut() = text;
    }

    fn report_left_out(&mut self) {
        if self.left_out > 0 {
            tracing::warn!(path = self.path, "{} more lines of Python are left out", self.left_out);
            self.left_out = 0;
        }
    }
}
