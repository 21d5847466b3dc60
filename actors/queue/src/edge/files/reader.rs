//! The file reader's state and its main steps: commands, timers, slices, rows.

use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestrator_observe::{WorkGuard, metrics};
use orchestrator_queue_rules::{
    file_name::canonical_base,
    lines::{FeedResult, LINE_BYTES_MAX},
    storage::{Batch, RunId},
    tracking::{Cause, Tracking},
};
use orchestrator_supervise::{Outbox, StartCx};

use super::{
    followed_file::{BUFFER_BYTES, FollowedFile, Phase, SLICE_BYTES, Slice},
    schedule::{Key, Schedule, Timer},
    unread_files::{Report, UnreadFiles},
};
use crate::{
    messages::{IngestOp, ReadCommand},
    refused_files::RefusedInDirectory,
    warned_names::WarnedNames,
};

/// Time without growth after which a created file is complete if its writer has not closed it
/// (CONTRACT QR12).
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// Interval of checks for growth of files that inotify may not report under their name.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Delay before the directory is listed or a file is read again after a failure.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Size of a slice before workers are answered for the first time, in bytes.
const FIRST_SLICE_BYTES: usize = 256 << 10;

/// Rows between two reports of progress.
const PROGRESS_ROWS: usize = 4_096;

/// Maximum memory of a long line while it is stored, in bytes (CONTRACT QR16).
const LONG_LINE_BYTES_MAX: u64 = 3 * LINE_BYTES_MAX as u64;
/// Maximum number of skipped lines per file reported in warnings.
const SKIPS_LISTED: u64 = 10;

/// Result of a reader that was asked to stop.
#[derive(Debug)]
pub(super) struct Stopped;

pub(super) struct Reader {
    pub(super) input_dir: PathBuf,
    pub(super) tracking: Tracking,
    pub(super) followed: HashMap<Key, FollowedFile>,
    pub(super) schedule: Schedule,
    pub(super) warned: WarnedNames,
    pub(super) refused: RefusedInDirectory,
    /// All jobs come from fetcher files, so that none of them means no work.
    is_only_source: bool,
    /// The reason that the blocker names.
    reported: Option<Report>,
    /// Bytes to read before workers are answered; None once they are.
    pub(super) initial_read: Option<InitialRead>,
    pub(super) scanned: bool,
    pub(super) cx: StartCx,
    ops: Outbox<IngestOp>,
    /// Work item in progress, with its name.
    work_item: Option<(&'static str, WorkGuard)>,
    buffer: Box<[u8]>,
    pub(super) metrics: ReaderMetrics,
    pub(super) unread_files: UnreadFiles,
}

/// Remaining bytes of the initial read, after which workers are answered.
pub(super) struct InitialRead {
    /// Bytes of rows.
    pub(super) rows: usize,
    /// Bytes of all lines, with or without a row.
    pub(super) text: usize,
}

metrics! {
    /// Metrics of the reader.
    pub(super) struct ReaderMetrics {
        /// Fetcher files that are followed.
        pub(super) followed: gauge("files"),
        /// Failed tries to open or examine a fetcher file.
        pub(super) failed: counter("opens") as "failed_opens",
        /// Bytes of rows read from fetcher files.
        pub(super) bytes: counter("bytes") as "read_bytes",
        /// Bytes of rows that are read from fetcher files and not yet stored.
        pub(super) waiting: gauge("bytes") as "unstored",
        /// Rows read from fetcher files.
        pub(super) rows: counter("rows") as "read_rows",
        /// Fetcher files that are symbolic links and are not followed, because neither root nor the program's
        /// user nor the owner of the file made them.
        pub(super) refused_links: gauge("links"),
        /// Fetcher files that cannot be read at present; each is tried again.
        pub(super) unreadable: gauge("files"),
        /// Files in the input directory whose names end in `.txt` or `.txt.part` and are not those of fetcher
        /// files.
        pub(super) misnamed: gauge("files"),
        /// Lines of fetcher files skipped because they are not a job.
        pub(super) skipped: counter("lines"),
    }
}

impl Reader {
    pub(super) fn new(
        input_dir: PathBuf,
        warned: WarnedNames,
        refused: RefusedInDirectory,
        ops: Outbox<IngestOp>,
        is_only_source: bool,
        cx: &StartCx,
    ) -> Self {
        let metrics = ReaderMetrics::register(&cx.vitals);
        metrics.waiting.set_bound(LONG_LINE_BYTES_MAX);
        Self {
            input_dir,
            refused,
            is_only_source,
            reported: None,
            tracking: Tracking::default(),
            followed: HashMap::new(),
            schedule: Schedule::default(),
            warned,
            initial_read: None,
            scanned: false,
            cx: cx.clone(),
            ops,
            work_item: None,
            buffer: vec![0; BUFFER_BYTES].into(),
            metrics,
            unread_files: UnreadFiles::default(),
        }
    }

    /// Reports files that are not read, and a directory without fetcher files. Called before each slice, and
    /// before the reader waits.
    pub(super) fn report_files(&mut self) {
        self.unread_files.prune(&self.input_dir);
        self.metrics.refused_links.set(self.refused.links.count());
        self.metrics.unreadable.set(self.unread_files.unreadable());
        self.metrics.misnamed.set(self.unread_files.misnamed());
        let is_missing = self.scanned && self.tracking.is_empty() && self.is_only_source;
        let report =
            self.report_elsewhere().or_else(|| self.unread_files.report(is_missing, &self.input_dir));
        if report == self.reported {
            return;
        }
        match &report {
            Some(report) => report.set(&self.cx.vitals),
            None => self.cx.vitals.clear_blocker(),
        }
        self.reported = report;
    }

    /// Returns the report of files of another instance's fetcher.
    fn report_elsewhere(&self) -> Option<Report> {
        let (fetcher, text) = self.refused.fetchers.first()?;
        let files = self.refused.fetchers.count();
        Some(Report {
            kind: "fetcher_elsewhere",
            text,
            evidence: vec![format!("{files} such files are in {}", self.input_dir.display())],
            help: format!("orchestrator queue adopt {fetcher} at this instance, or remove its files here"),
            routine: false,
        })
    }

    /// Sets a file aside whose fetcher belongs to another instance.
    fn refuse(&mut self, run: &RunId, reason: String) {
        let of_run = self.followed.iter().find(|((known, _), _)| known == run);
        let name =
            of_run.map_or_else(|| format!("{}.txt", canonical_base(run)), |(_, file)| file.file.name());
        self.set_aside(run);
        if self.warned.should_warn(name.as_ref()) {
            tracing::error!(name, "ignored: {reason}");
        }
        self.cx.vitals.note(format!("ignored {name}: {reason}"));
        self.refused.fetchers.insert(&name, run, reason);
    }

    /// Forgets the files of a run, whose rows stay.
    pub(super) fn set_aside(&mut self, run: &RunId) {
        self.forget(run);
        self.tracking.forget(run);
    }

    pub(super) fn execute(&mut self, command: ReadCommand) -> Result<(), Stopped> {
        match command {
            ReadCommand::Examine { file, change } => self.examine(&file, Cause::Changed(change), 0),
            ReadCommand::Rescan => self.rescan(false),
            ReadCommand::Moved => self.rescan(true),
            ReadCommand::Refused { run, reason } => {
                self.refuse(&run, reason);
                Ok(())
            }
            ReadCommand::Ignored { name, error } => {
                self.unread_files.ignore(&name, error);
                let is_there = self.input_dir.join(&name).symlink_metadata().is_ok();
                self.unread_files.set_misnamed(&name, is_there);
                Ok(())
            }
        }
    }

    /// Time of the next work: now, if a file is to be read.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let next_read = self.schedule.has_reading().then(|| {
            // While paused no file is read; a resume is noticed after `POLL_INTERVAL`.
            if self.cx.child.is_paused() { now + POLL_INTERVAL } else { now }
        });
        let answering = self.initial_read.is_some().then_some(now);
        next_read.into_iter().chain(self.schedule.next_timer()).chain(answering).min()
    }

    /// Runs the timers that are due, then reads one slice of one file.
    pub(super) fn work(&mut self, now: Instant) -> Result<(), Stopped> {
        while let Some(timer) = self.schedule.due(now) {
            self.fire(timer, now)?;
        }
        while !self.cx.child.is_paused()
            && let Some(key) = self.schedule.next()
        {
            // Renames and deletions leave outdated entries in the schedule.
            if self.followed.get(&key).is_some_and(|followed_file| followed_file.queued) {
                self.read(key, now)?;
                break;
            }
        }
        self.finish_initial_read()
    }

    /// Runs `work` as a work item, which the tree names.
    pub(super) fn during<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> T) -> T {
        self.work_item = Some((name, self.cx.vitals.begin_work(name)));
        let done = work(self);
        self.work_item = None;
        done
    }

    /// Runs `wait` outside of the work item: a reader that waits for the store, which may delete a run for
    /// minutes, is not stuck.
    pub(super) fn while_waiting<T>(&mut self, wait: impl FnOnce(&Self) -> T) -> T {
        let name = self.work_item.take().map(|(name, _)| name);
        let done = wait(self);
        self.work_item = name.map(|name| (name, self.cx.vitals.begin_work(name)));
        done
    }

    pub(super) fn send(&mut self, op: IngestOp) -> Result<(), Stopped> {
        self.while_waiting(|reader| reader.ops.send_blocking(op, &reader.cx.stop)).map_err(|_| Stopped)
    }

    fn fire(&mut self, timer: Timer, now: Instant) -> Result<(), Stopped> {
        match timer {
            Timer::Quiet(key) => {
                let Some(followed_file) = self.followed.get_mut(&key).filter(|r| r.phase == Phase::Settling)
                else {
                    return Ok(());
                };
                followed_file.timer_set = false;
                if followed_file.last_growth + QUIET_PERIOD <= now {
                    followed_file.phase = Phase::Final;
                    self.enqueue(&key);
                } else {
                    followed_file.timer_set = true;
                    self.schedule.at(followed_file.last_growth + QUIET_PERIOD, Timer::Quiet(key));
                }
            }
            Timer::Poll(key, id) => {
                if self.followed.get(&key).is_some_and(|r| r.id == id && r.phase == Phase::Growing) {
                    self.enqueue(&key);
                    self.schedule.at(now + POLL_INTERVAL, Timer::Poll(key, id));
                }
            }
            Timer::Retry { file, cause, failures } => self.examine(&file, cause, failures)?,
            Timer::Reread(key) => self.enqueue(&key),
            Timer::Rescan => self.rescan(false)?,
        }
        Ok(())
    }

    /// Schedules a file for reading.
    pub(super) fn enqueue(&mut self, key: &Key) {
        if let Some(followed_file) = self.followed.get_mut(key)
            && !std::mem::replace(&mut followed_file.queued, true)
        {
            self.schedule.add(key.clone());
        }
    }

    fn read(&mut self, key: Key, now: Instant) -> Result<(), Stopped> {
        let Some(followed_file) = self.followed.get_mut(&key).filter(|followed_file| followed_file.queued)
        else {
            return Ok(());
        };
        followed_file.queued = false;
        // Small slices let small files finish before large ones until workers are answered.
        let bytes = if self.initial_read.is_some() { FIRST_SLICE_BYTES } else { SLICE_BYTES };
        match followed_file.slice(&self.input_dir, &mut self.buffer, bytes, &|| self.cx.vitals.progress()) {
            Ok(Slice::Read { fed, bytes, end }) => {
                self.unread_files.read(&followed_file.file.name());
                if let Some(left) = &mut self.initial_read {
                    left.rows = left.rows.saturating_sub(fed.row_bytes);
                    left.text = left.text.saturating_sub(bytes);
                }
                self.process(key, fed, bytes > 0, end, now)
            }
            Ok(Slice::Rewritten) => {
                tracing::warn!(
                    name = followed_file.file.name(),
                    "the file was truncated or rewritten: reading it from its start"
                );
                self.enqueue(&key);
                Ok(())
            }
            Ok(Slice::Gone) => {
                let file = followed_file.file.clone();
                self.examine(&file, Cause::Listed, 0)
            }
            Err(error) => {
                let name = followed_file.file.name();
                self.unread_files.failed(&name, &error);
                if self.warned.should_warn(name.as_ref()) {
                    tracing::warn!(name, %error, "cannot read the file: trying again");
                }
                self.schedule.at(now + RETRY_DELAY, Timer::Reread(key));
                Ok(())
            }
        }
    }

    fn process(
        &mut self,
        key: Key,
        fed: FeedResult,
        grown: bool,
        end: bool,
        now: Instant,
    ) -> Result<(), Stopped> {
        let Some(followed_file) = self.followed.get_mut(&key) else { return Ok(()) };
        let rows_before = followed_file.count_rows(fed.rows.len());
        warn_about_skips(followed_file, &fed);
        self.metrics.skipped.add(fed.skipped);
        let reopened = grown && followed_file.phase == Phase::Done;
        if grown {
            followed_file.last_growth = now;
        }
        if reopened {
            followed_file.phase = Phase::Settling;
        }
        let ends = end && followed_file.completes_at_end();
        let must_settle = end && !ends && followed_file.phase == Phase::Settling;
        if must_settle && !std::mem::replace(&mut followed_file.timer_set, true) {
            self.schedule.at(followed_file.last_growth + QUIET_PERIOD, Timer::Quiet(key.clone()));
        }
        if ends || (end && followed_file.phase == Phase::Done) {
            followed_file.finish();
        } else if !end {
            followed_file.queued = true;
            self.schedule.add_active(key.clone());
        }
        if reopened {
            self.send(IngestOp::UpsertRun { run: key.0.clone(), complete: false })?;
        }
        if fed.rows.is_empty() && !ends {
            return Ok(());
        }
        self.metrics.rows.add(fed.rows.len() as u64);
        self.metrics.bytes.add(fed.row_bytes as u64);
        let held = Some(self.metrics.waiting.hold_many(fed.row_bytes as u64));
        let progress = |at| {
            if at % PROGRESS_ROWS == 0 {
                self.cx.vitals.progress();
            }
        };
        let rows = fed.rows.into_iter().enumerate().inspect(|(at, _)| progress(*at)).map(|(_, row)| row);
        let rows = Batch::after(rows_before, rows);
        // The last rows carry `complete` (CONTRACT QR42).
        self.send(IngestOp::Rows { run: key.0, rows, complete: ends, _held: held })
    }
}

fn warn_about_skips(followed_file: &mut FollowedFile, fed: &FeedResult) {
    let name = || followed_file.file.name();
    for skip in fed.skips.iter().take(SKIPS_LISTED.saturating_sub(followed_file.skipped) as usize) {
        tracing::warn!(name = name(), line = skip.line, "skipped a line: {}", skip.reason);
    }
    let before = followed_file.skipped;
    followed_file.skipped += fed.skipped;
    if before < SKIPS_LISTED && followed_file.skipped >= SKIPS_LISTED {
        tracing::warn!(name = name(), "further skipped lines of this file are only counted");
    }
}
