//! The reader's hands: looks at names, reads slices, sends operations.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use orchestrator_supervise::{Figure, FigureKind, Outbox, StartCx};

use super::{
    agenda::{Agenda, Key, Timer},
    probe::{self, Seen},
    reading::{BUFFER_BYTES, Phase, Reading, Slice},
};
use crate::{
    file_name::{FetcherFile, FileKind, WarnedNames},
    lines::{Fed, RowBatch},
    messages::{Change, IngestOp, ReadCommand},
    storage::{Batch, RunId},
    tracking::{Action, Cause, Facts, FileId, Tracking},
};

/// A created file without a sign of its writer is complete after so long without growth [R12].
const QUIET: Duration = Duration::from_secs(1);

/// How often a file is looked at whose changes inotify may not tell under its name.
const POLL: Duration = Duration::from_millis(250);

/// The first wait after a failure; doubled each time up to [`RETRY_MAX`].
pub(super) const RETRY: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

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
    /// How much more text is read before workers are answered, in bytes; None once they are.
    pub(super) reconciling: Option<usize>,
    pub(super) scanned: bool,
    pub(super) cx: StartCx,
    ops: Outbox<IngestOp>,
    buffer: Box<[u8]>,
    figures: Figures,
}

struct Figures {
    followed: Figure,
    bytes: Figure,
    rows: Figure,
    skipped: Figure,
}

impl Reader {
    pub(super) fn new(input_dir: PathBuf, ops: Outbox<IngestOp>, cx: &StartCx) -> Self {
        let figures = Figures {
            followed: cx.vitals.declare("files_known", "files", FigureKind::Gauge),
            bytes: cx.vitals.declare("text_read", "bytes", FigureKind::Counter),
            rows: cx.vitals.declare("rows_read", "rows", FigureKind::Counter),
            skipped: cx.vitals.declare("lines_skipped", "lines", FigureKind::Counter),
        };
        Self {
            input_dir,
            tracking: Tracking::default(),
            readings: HashMap::new(),
            agenda: Agenda::default(),
            warned: WarnedNames::default(),
            reconciling: None,
            scanned: false,
            cx: cx.clone(),
            ops,
            buffer: vec![0; BUFFER_BYTES].into(),
            figures,
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
        if !self.cx.vitals.is_paused()
            && let Some(key) = self.agenda.next()
        {
            self.read(key, now)?;
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
            Timer::Retry { file, cause, delay } => self.look(&file, cause, (delay * 2).min(RETRY_MAX))?,
            Timer::Reread(key) => self.enqueue(&key),
            Timer::Rescan => self.rescan()?,
        }
        Ok(())
    }

    /// Something happened to `file`: finds out what its names stand for, and does what that asks for.
    pub(super) fn look(&mut self, file: &FetcherFile, cause: Cause, delay: Duration) -> Result<(), Stopped> {
        let facts = match self.facts(file, cause) {
            Ok(facts) => facts,
            Err(error) => return Ok(self.retry(file, cause, delay, &error)),
        };
        for action in self.tracking.decide(file, cause, &facts) {
            self.act(file, cause, delay, &facts, action)?;
        }
        self.figures.followed.set(self.readings.len() as u64);
        Ok(())
    }

    fn facts(&mut self, file: &FetcherFile, cause: Cause) -> io::Result<Facts> {
        let mut facts = Facts::default();
        if matches!(cause, Cause::Changed(Change::Modified | Change::Closed)) {
            return Ok(facts);
        }
        let names = self.tracking.names(file);
        facts.part = self.regular(&names.part)?;
        for name in names.wholes {
            if let Some(id) = self.regular(&name)? {
                facts.whole = Some((name, id));
                break;
            }
        }
        Ok(facts)
    }

    fn regular(&mut self, name: &str) -> io::Result<Option<FileId>> {
        match probe::look(&self.input_dir.join(name))? {
            Seen::Regular(id) => Ok(Some(id)),
            Seen::Absent => Ok(None),
            Seen::Irregular(kind) => {
                if self.warned.is_news(name.as_ref()) {
                    tracing::warn!(name, "ignored: it is {kind}, not a regular file");
                }
                Ok(None)
            }
        }
    }

    fn retry(&mut self, file: &FetcherFile, cause: Cause, delay: Duration, error: &io::Error) {
        let name = file.name();
        if self.warned.is_news(name.as_ref()) {
            tracing::warn!(name, %error, "cannot open it: trying again until it works");
        }
        self.agenda.at(Instant::now() + delay, Timer::Retry { file: file.clone(), cause, delay });
    }

    fn act(
        &mut self,
        looked_at: &FetcherFile,
        cause: Cause,
        delay: Duration,
        facts: &Facts,
        action: Action,
    ) -> Result<(), Stopped> {
        let run = &looked_at.run;
        match action {
            Action::Begin { file, settle } => match self.begin(&file, settle, facts) {
                Ok(true) => self.send(IngestOp::UpsertRun { run: run.clone(), complete: false })?,
                Ok(false) => {}
                Err(error) => self.retry(&file, cause, delay, &error),
            },
            Action::Check(kind) => self.check(&(run.clone(), kind), cause),
            Action::Settled => {
                let key = (run.clone(), FileKind::Complete);
                if let Some(reading) = self.readings.get_mut(&key).filter(|r| r.phase == Phase::Settling) {
                    reading.phase = Phase::Ending;
                }
                self.check(&key, cause);
            }
            Action::Finish(base) => {
                if let Some(mut reading) = self.readings.remove(&(run.clone(), FileKind::Growing)) {
                    let key = (run.clone(), FileKind::Complete);
                    reading.file = FetcherFile { run: run.clone(), base, kind: FileKind::Complete };
                    reading.phase = Phase::Ending;
                    reading.queued = false;
                    self.readings.insert(key.clone(), reading);
                    self.enqueue(&key);
                }
            }
            Action::Delete => {
                self.forget(run);
                self.send(IngestOp::DeleteRun { run: run.clone() })?;
            }
            Action::Collision => {
                if self.warned.is_news(looked_at.name().as_ref()) {
                    tracing::warn!(
                        name = looked_at.name(),
                        "ignored: its run is already read from another file"
                    );
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self, run: &RunId) {
        for kind in [FileKind::Growing, FileKind::Complete] {
            self.readings.remove(&(run.clone(), kind));
        }
    }

    /// Starts to follow a file; false if it vanished meanwhile (contract: then there is no run).
    fn begin(&mut self, file: &FetcherFile, settle: bool, facts: &Facts) -> io::Result<bool> {
        let now = Instant::now();
        let reading = match file.kind {
            // Held open from now on, so that its inode cannot come to stand for another file.
            FileKind::Growing => match probe::open(&self.input_dir.join(file.name()))? {
                Some((handle, meta)) => {
                    Reading::new(file.clone(), probe::file_id(&meta), Phase::Growing, Some(handle), now)
                }
                None => return Ok(false),
            },
            FileKind::Complete => match &facts.whole {
                Some((_, id)) => {
                    let phase = if settle { Phase::Settling } else { Phase::Ending };
                    Reading::new(file.clone(), *id, phase, None, now)
                }
                None => return Ok(false),
            },
        };
        self.tracking.began(file, reading.id);
        let key = (file.run.clone(), file.kind);
        let is_link = || self.input_dir.join(file.name()).is_symlink();
        if file.kind == FileKind::Growing && (reading.is_linked() || is_link()) {
            self.agenda.at(now + POLL, Timer::Poll(key.clone(), reading.id));
        }
        self.readings.insert(key.clone(), reading);
        self.enqueue(&key);
        Ok(true)
    }

    fn check(&mut self, key: &Key, cause: Cause) {
        let Some(reading) = self.readings.get(key) else { return };
        // A run that the database has complete stays unread until its file really changes [D06].
        if !reading.unread || cause == Cause::Changed(Change::Modified) {
            self.enqueue(key);
        }
    }

    fn enqueue(&mut self, key: &Key) {
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
        match reading.slice(&self.input_dir, &mut self.buffer) {
            Ok(Slice::Read { fed, grown, end }) => self.take(key, fed, grown, end, now),
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
        self.figures.skipped.add(fed.skipped);
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
        self.hand_over(key.0, fed.batches, ends)
    }

    /// Sends the rows; `complete` goes with the last of them [R42].
    fn hand_over(&mut self, run: RunId, batches: Vec<RowBatch>, complete: bool) -> Result<(), Stopped> {
        let mut left = batches.len();
        for batch in batches {
            left -= 1;
            let bytes = batch.text_bytes();
            self.figures.rows.add(batch.len() as u64);
            self.figures.bytes.add(bytes as u64);
            if let Some(budget) = &mut self.reconciling {
                *budget = budget.saturating_sub(bytes);
            }
            let rows = Batch::new(batch.into_pairs());
            self.send(IngestOp::Rows { run: run.clone(), rows, complete: complete && left == 0 })?;
            if left == 0 {
                return Ok(());
            }
        }
        if complete {
            self.send(IngestOp::Rows { run, rows: Batch::default(), complete })?;
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
