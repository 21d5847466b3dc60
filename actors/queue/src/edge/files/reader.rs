//! The reader's hands: looks at names, reads slices, sends operations.

use std::{
    collections::HashMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestrator_supervise::{Outbox, StartCx, metrics};

use super::{
    agenda::{Agenda, Key, Timer},
    reading::{BUFFER_BYTES, Phase, Reading, SLICE_BYTES, Slice},
};
use crate::{
    file_name::WarnedNames,
    lines::{Fed, RowBatch},
    messages::{IngestOp, ReadCommand},
    storage::{Batch, RunId},
    tracking::{Cause, Tracking},
};

/// A created file without a sign of its writer is complete after so long without growth (CONTRACT QR12).
const QUIET: Duration = Duration::from_secs(1);

/// How often a file is looked at whose changes inotify may not tell under its name.
pub(super) const POLL: Duration = Duration::from_millis(250);

/// The first wait after a failure.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// How much of a file is read at a time while workers wait for their first answer, in bytes.
const FIRST_SLICE_BYTES: usize = 256 << 10;

/// How many skipped lines of one file are named in warnings.
const SKIPS_NAMED: u64 = 10;

/// The child is asked to stop.
#[derive(Debug)]
pub(super) struct Stopped;

pub(super) struct Reader {
    pub(super) input_dir: PathBuf,
    pub(super) tracking: Tracking,
    pub(super) readings: HashMap<Key, Reading>,
    pub(super) agenda: Agenda,
    pub(super) warned: WarnedNames,
    /// Bytes still to be read before workers are answered; None once they are.
    pub(super) reconciling: Option<FirstRound>,
    pub(super) scanned: bool,
    pub(super) cx: StartCx,
    ops: Outbox<IngestOp>,
    buffer: Box<[u8]>,
    pub(super) metrics: ReaderMetrics,
}

/// Part of the files that is read before workers are answered, in bytes left.
pub(super) struct FirstRound {
    /// Of rows.
    pub(super) rows: usize,
    /// Of lines that give rows and of those that do not.
    pub(super) text: usize,
}

metrics! {
    /// Metrics of the reader.
    pub(super) struct ReaderMetrics {
        /// Fetcher files being followed.
        pub(super) known: gauge("files") as "files_known",
        /// Fetcher files that could not be opened.
        pub(super) failed: counter("tries") as "opens_failed",
        /// Bytes read from fetcher files.
        pub(super) bytes: counter("bytes") as "text_read",
        /// Rows read from fetcher files.
        pub(super) rows: counter("rows") as "rows_read",
        /// Lines of fetcher files that were no job.
        pub(super) skipped: counter("lines") as "lines_skipped",
    }
}

impl Reader {
    pub(super) fn new(input_dir: PathBuf, warned: WarnedNames, ops: Outbox<IngestOp>, cx: &StartCx) -> Self {
        Self {
            input_dir,
            tracking: Tracking::default(),
            readings: HashMap::new(),
            agenda: Agenda::default(),
            warned,
            reconciling: None,
            scanned: false,
            cx: cx.clone(),
            ops,
            buffer: vec![0; BUFFER_BYTES].into(),
            metrics: ReaderMetrics::register(&cx.vitals),
        }
    }

    pub(super) fn obey(&mut self, command: ReadCommand) -> Result<(), Stopped> {
        match command {
            ReadCommand::Look { file, change } => self.look(&file, Cause::Changed(change), RETRY),
            ReadCommand::Rescan => self.rescan(),
        }
    }

    /// When there is something to do: now, if a file is to be read.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        let reading = self.agenda.has_reading().then(|| {
            // Paused, no file is read; resuming is noticed soon enough.
            if self.cx.vitals.is_paused() { now + POLL } else { now }
        });
        let answering = self.reconciling.is_some().then_some(now);
        reading.into_iter().chain(self.agenda.next_timer()).chain(answering).min()
    }

    /// Does what is due: timers, then one slice of one file.
    pub(super) fn work(&mut self, now: Instant) -> Result<(), Stopped> {
        while let Some(timer) = self.agenda.due(now) {
            self.fire(timer, now)?;
        }
        while !self.cx.vitals.is_paused()
            && let Some(key) = self.agenda.next()
        {
            // What was followed under a name may have gone since, many times over in a storm of renames.
            if self.readings.get(&key).is_some_and(|reading| reading.queued) {
                self.read(key, now)?;
                break;
            }
        }
        self.answer_workers()
    }

    pub(super) fn send(&self, op: IngestOp) -> Result<(), Stopped> {
        self.ops.send_blocking(op, &self.cx.stop).map_err(|_| Stopped)
    }

    fn fire(&mut self, timer: Timer, now: Instant) -> Result<(), Stopped> {
        match timer {
            Timer::Quiet(key) => {
                let Some(reading) = self.readings.get_mut(&key).filter(|r| r.phase == Phase::Settling) else {
                    return Ok(());
                };
                reading.timed = false;
                if reading.last_growth + QUIET <= now {
                    reading.phase = Phase::Ending;
                    self.enqueue(&key);
                } else {
                    reading.timed = true;
                    self.agenda.at(reading.last_growth + QUIET, Timer::Quiet(key));
                }
            }
            Timer::Poll(key, id) => {
                if self.readings.get(&key).is_some_and(|r| r.id == id && r.phase == Phase::Growing) {
                    self.enqueue(&key);
                    self.agenda.at(now + POLL, Timer::Poll(key, id));
                }
            }
            Timer::Retry { file, cause, delay } => self.look(&file, cause, delay)?,
            Timer::Reread(key) => self.enqueue(&key),
            Timer::Rescan => self.rescan()?,
        }
        Ok(())
    }

    /// Gives a file its turn in the agenda.
    pub(super) fn enqueue(&mut self, key: &Key) {
        if let Some(reading) = self.readings.get_mut(key)
            && !std::mem::replace(&mut reading.queued, true)
        {
            self.agenda.add(key.clone());
        }
    }

    fn read(&mut self, key: Key, now: Instant) -> Result<(), Stopped> {
        let Some(reading) = self.readings.get_mut(&key).filter(|reading| reading.queued) else {
            return Ok(());
        };
        reading.queued = false;
        // Small slices until workers are answered, so that small files come in before large ones.
        let bytes = if self.reconciling.is_some() { FIRST_SLICE_BYTES } else { SLICE_BYTES };
        match reading.slice(&self.input_dir, &mut self.buffer, bytes) {
            Ok(Slice::Read { fed, bytes, end }) => {
                if let Some(left) = &mut self.reconciling {
                    let rows: usize = fed.batches.iter().map(RowBatch::text_bytes).sum();
                    left.rows = left.rows.saturating_sub(rows);
                    left.text = left.text.saturating_sub(bytes);
                }
                self.take(key, fed, bytes > 0, end, now)
            }
            Ok(Slice::Rewritten) => {
                tracing::warn!(
                    name = reading.file.name(),
                    "it was truncated or rewritten: reading it from its beginning"
                );
                self.enqueue(&key);
                Ok(())
            }
            Ok(Slice::Gone) => {
                let file = reading.file.clone();
                self.look(&file, Cause::Listed, RETRY)
            }
            Err(error) => {
                let name = reading.file.name();
                if self.warned.is_news(name.as_ref()) {
                    tracing::warn!(name, %error, "cannot read it: trying again until it works");
                }
                self.agenda.at(now + RETRY, Timer::Reread(key));
                Ok(())
            }
        }
    }

    fn take(&mut self, key: Key, fed: Fed, grown: bool, end: bool, now: Instant) -> Result<(), Stopped> {
        let Some(reading) = self.readings.get_mut(&key) else { return Ok(()) };
        report_skips(reading, &fed);
        self.metrics.skipped.add(fed.skipped);
        let reopened = grown && reading.phase == Phase::Done;
        if grown {
            reading.last_growth = now;
        }
        if reopened {
            reading.phase = Phase::Settling;
        }
        let ends = end && reading.ends_here();
        let must_settle = end && !ends && reading.phase == Phase::Settling;
        if must_settle && !std::mem::replace(&mut reading.timed, true) {
            self.agenda.at(reading.last_growth + QUIET, Timer::Quiet(key.clone()));
        }
        if ends || (end && reading.phase == Phase::Done) {
            reading.finish();
        } else if !end {
            reading.queued = true;
            self.agenda.add_active(key.clone());
        }
        if reopened {
            self.send(IngestOp::UpsertRun { run: key.0.clone(), complete: false })?;
        }
        self.hand_over(&key, fed.batches, ends)
    }

    /// Sends the rows; `complete` goes with the last of them (CONTRACT QR42).
    fn hand_over(&mut self, key: &Key, batches: Vec<RowBatch>, complete: bool) -> Result<(), Stopped> {
        let run: &RunId = &key.0;
        let mut left = batches.len();
        for batch in batches {
            left -= 1;
            let bytes = batch.text_bytes();
            self.metrics.rows.add(batch.len() as u64);
            self.metrics.bytes.add(bytes as u64);
            let before = self.readings.get_mut(key).map_or(0, |reading| reading.count_rows(batch.len()));
            let rows = Batch::after(before, batch.into_pairs());
            self.send(IngestOp::Rows { run: run.clone(), rows, complete: complete && left == 0 })?;
            if left == 0 {
                return Ok(());
            }
        }
        if complete {
            self.send(IngestOp::Rows { run: run.clone(), rows: Batch::default(), complete })?;
        }
        Ok(())
    }
}

fn report_skips(reading: &mut Reading, fed: &Fed) {
    let name = || reading.file.name();
    for skip in fed.skips.iter().take(SKIPS_NAMED.saturating_sub(reading.skipped) as usize) {
        tracing::warn!(name = name(), line = skip.line, "skipped a line: {}", skip.reason);
    }
    let before = reading.skipped;
    reading.skipped += fed.skipped;
    if before < SKIPS_NAMED && reading.skipped >= SKIPS_NAMED {
        tracing::warn!(name = name(), "further skipped lines of this file are only counted");
    }
}
