//! Log of crashes: the last reports of each child, in limited memory.

use std::{collections::VecDeque, path::PathBuf, sync::Arc};

use orchestrator_text::sanitize;
use parking_lot::Mutex;

use crate::{
    branch::is_in_branch,
    crash_report::{CrashReport, Samples},
    frames::Frames,
    symbols::Resolver,
};

/// Most reports of one child.
const CRASHES_PER_CHILD: usize = 10;
/// Most memory of all reports, in bytes, and the most JSON of one answer.
const LOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Log of the last 10 crashes of each child, in at most 4 MiB, and 512 KiB of resolved addresses. Clones
/// share it.
#[derive(Debug, Clone, Default)]
pub struct CrashLog {
    log: Arc<Mutex<CrashEntries>>,
    resolver: Arc<Mutex<Resolver>>,
}

#[derive(Debug, Default)]
struct CrashEntries {
    /// Oldest first.
    crashes: VecDeque<Crash>,
    bytes: usize,
    last: u64,
}

#[derive(Debug, Clone)]
struct Crash {
    /// The report, without its backtrace.
    report: CrashReport,
    frames: Frames,
    bytes: usize,
}

impl Crash {
    fn count_bytes(&mut self) -> usize {
        self.bytes = self.report.memory() + self.frames.bytes();
        self.bytes
    }
}

impl CrashLog {
    /// Adds a report. The oldest one of the same child makes room if it has 10.
    pub fn record(&self, report: CrashReport, frames: Frames) {
        let mut crash = Crash { report, frames, bytes: 0 };
        crash.report.limit_events();
        let mut log = self.log.lock();
        log.last += 1;
        crash.report.number = log.last;
        let same = |other: &&Crash| other.report.path == crash.report.path;
        if log.crashes.iter().filter(same).count() >= CRASHES_PER_CHILD
            && let Some(oldest) = log.crashes.iter().position(|other| same(&other))
        {
            log.remove(oldest);
        }
        log.bytes += crash.count_bytes();
        log.crashes.push_back(crash);
        log.shrink();
    }

    /// Reports to which [`CrashLog::add_samples`] has added none yet: number, path and time in milliseconds
    /// since 1970.
    pub fn without_samples(&self) -> Vec<(u64, String, u64)> {
        let log = self.log.lock();
        // Samples are added in order, so the search ends early.
        let missing = log.crashes.iter().rev().take_while(|crash| crash.report.samples.is_none());
        let mut missing: Vec<_> = missing
            .map(|crash| (crash.report.number, crash.report.path.clone(), crash.report.at_ms))
            .collect();
        // Oldest first: otherwise, a caller that stops halfway hides the older ones from the search.
        missing.reverse();
        missing
    }

    /// Adds the samples of the minute before to the report with this number, if it is still kept.
    pub fn add_samples(&self, number: u64, samples: Samples) {
        let mut log = self.log.lock();
        let Ok(at) = log.crashes.binary_search_by_key(&number, |crash| crash.report.number) else { return };
        let crash = &mut log.crashes[at];
        let before = crash.bytes;
        crash.report.add_samples(samples);
        let after = crash.count_bytes();
        log.bytes = log.bytes - before + after;
        log.shrink();
    }

    /// Has `program`, called with `arguments`, resolve the addresses of stacks: a program of the same binary
    /// that calls [`resolve_symbols`](crate::resolve_symbols). Without it, this process resolves them and
    /// keeps the memory.
    pub fn resolve_by(&self, program: PathBuf, arguments: &'static [&'static str]) {
        self.resolver.lock().set_process(program, arguments);
    }

    /// Up to `limit` reports of the child at `path` and its descendants, newest first, in at most 4 MiB of
    /// JSON, and the number of older ones. It reads debug information, so it must not be called on an
    /// arbiter.
    pub fn reports(&self, path: &str, limit: usize) -> (Vec<CrashReport>, usize) {
        let (all, found): (usize, Vec<Crash>) = {
            let log = self.log.lock();
            let of_branch = log.crashes.iter().rev().filter(|crash| is_in_branch(&crash.report.path, path));
            (of_branch.clone().count(), of_branch.take(limit).cloned().collect())
        };
        let (mut resolver, mut room) = (self.resolver.lock(), LOG_BYTES_MAX);
        let learnt = resolver.learn(found.iter().map(|crash| &crash.frames));
        let complete = |Crash { mut report, frames, .. }: Crash| {
            report.add_backtrace(match &learnt {
                Err(error) if frames.bytes() > 0 => vec![sanitize(format!("(no symbols: {error})"))],
                _ => resolver.lines(&frames),
            });
            report
        };
        let fits = |report: &CrashReport| {
            let bytes = report.bytes();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let reports: Vec<_> = found.into_iter().map(complete).take_while(fits).collect();
        let older = all - reports.len();
        (reports, older)
    }
}

impl CrashEntries {
    fn remove(&mut self, at: usize) {
        if let Some(crash) = self.crashes.remove(at) {
            self.bytes -= crash.bytes;
        }
    }

    fn shrink(&mut self) {
        while self.bytes > LOG_BYTES_MAX {
            self.remove(0);
        }
    }
}

#[cfg(test)]
mod tests;
