//! The reader's decisions carried out: which files it follows, from when, and until when.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{
    agenda::{Key, Timer},
    probe::{self, Seen},
    reader::{POLL, Reader, Stopped},
    reading::{Phase, Reading},
};
use crate::{
    file_name::{FetcherFile, FileKind},
    messages::{Change, IngestOp},
    storage::RunId,
    tracking::{Action, Cause, Facts, FileId},
};

/// The longest wait before a file is tried again that could not be looked at; the first is doubled up to it.
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Reader {
    /// Something happened to `file`: finds out what its names stand for, and does what that asks for.
    pub(super) fn look(&mut self, file: &FetcherFile, cause: Cause, delay: Duration) -> Result<(), Stopped> {
        let facts = match self.facts(file, cause) {
            Ok(facts) => facts,
            Err(error) => {
                self.retry(file, cause, delay, &error);
                return Ok(());
            }
        };
        for action in self.tracking.decide(file, cause, &facts) {
            self.act(file, cause, delay, &facts, action)?;
        }
        self.metrics.known.set(self.readings.len() as u64);
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
        self.metrics.failed.add(1);
        let name = file.name();
        if self.warned.is_news(name.as_ref()) {
            tracing::warn!(name, %error, "cannot open it: trying again until it works");
        }
        let next = (delay * 2).min(RETRY_MAX);
        self.agenda.at(Instant::now() + delay, Timer::Retry { file: file.clone(), cause, delay: next });
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

    /// Starts to follow a file; false if it vanished meanwhile (CONTRACT QF07: then there is no run).
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
        // A run that the database has complete stays unread until its file really changes (CONTRACT QD06).
        if !reading.unread || cause == Cause::Changed(Change::Modified) {
            self.enqueue(key);
        }
    }
}
