//! Executes the actions that [`Tracking`](orchestrator_queue_rules::tracking) decides on.

use std::{fmt::Display, io, time::Instant};

use orchestrator_edge::RetryPolicy;
use orchestrator_queue_rules::{
    file_name::{FetcherFile, FileKind},
    storage::RunId,
    tracking::{Action, Cause, Change, CurrentFiles, FileId},
};

use super::{
    followed_file::{FollowedFile, Phase},
    probe::{self, PathKind},
    reader::{POLL_INTERVAL, Reader, Stopped},
    schedule::{Key, Timer},
};
use crate::messages::IngestOp;

impl Reader {
    /// Examines the files behind the names of `file` and executes the resulting actions. `failures`
    /// is the number of failed tries before.
    pub(super) fn examine(&mut self, file: &FetcherFile, cause: Cause, failures: u32) -> Result<(), Stopped> {
        let current = match self.current_files(file, cause) {
            Ok(current) => current,
            Err(error) => {
                self.retry(file, cause, failures, &error);
                return Ok(());
            }
        };
        for action in self.tracking.decide(file, cause, &current) {
            self.act(file, cause, failures, &current, action)?;
        }
        self.metrics.followed.set(self.followed.len() as u64);
        Ok(())
    }

    fn current_files(&mut self, file: &FetcherFile, cause: Cause) -> io::Result<CurrentFiles> {
        let mut current = CurrentFiles::default();
        if matches!(cause, Cause::Changed(Change::Modified | Change::Closed)) {
            return Ok(current);
        }
        self.refused.fetchers.remove(&file.name());
        let names = self.tracking.names(file);
        current.part = self.regular(&file.run, &names.part)?;
        for name in names.wholes {
            if let Some(id) = self.regular(&file.run, &name)? {
                current.whole = Some((name, id));
                break;
            }
        }
        self.unread_files.read(&file.name());
        Ok(current)
    }

    pub(super) fn regular(&mut self, run: &RunId, name: &str) -> io::Result<Option<FileId>> {
        let kind = probe::examine(&self.input_dir.join(name))?;
        if !matches!(kind, PathKind::Refused(_)) {
            self.refused.links.remove(name);
        }
        match kind {
            PathKind::Regular(id) => return Ok(Some(id)),
            PathKind::Absent => {}
            PathKind::Irregular(kind) => {
                self.ignore(name, format_args!("{kind} instead of a regular file"));
            }
            PathKind::Refused(link) => {
                self.refused.links.insert(name, run, link.to_string());
                let why = "links must belong to root, to this program's user or to the owner of the file";
                if self.ignore(name, format_args!("{link}: {why}")) {
                    self.cx.vitals.note(format!("ignored {name}: {link}"));
                }
            }
        }
        Ok(None)
    }

    /// Ignores a file. Returns true if it is the first warning about its name.
    fn ignore(&mut self, name: &str, reason: impl Display) -> bool {
        self.unread_files.ignore(name.as_ref(), &reason);
        let is_first = self.warned.should_warn(name.as_ref());
        if is_first {
            tracing::warn!(name, "ignored: {reason}");
        }
        is_first
    }

    fn retry(&mut self, file: &FetcherFile, cause: Cause, failures: u32, error: &io::Error) {
        self.metrics.failed.add(1);
        let name = file.name();
        self.unread_files.failed(&name, error);
        if self.warned.should_warn(name.as_ref()) {
            tracing::warn!(name, %error, "cannot open the file: trying again");
        }
        let failures = failures.saturating_add(1);
        let next_try = Instant::now() + RetryPolicy::LOCAL.delay(failures);
        self.schedule.at(next_try, Timer::Retry { file: file.clone(), cause, failures });
    }

    fn act(
        &mut self,
        looked_at: &FetcherFile,
        cause: Cause,
        failures: u32,
        current: &CurrentFiles,
        action: Action,
    ) -> Result<(), Stopped> {
        let run = &looked_at.run;
        match action {
            Action::Begin { file, settle } => match self.begin(&file, settle, current) {
                Ok(true) => self.send(IngestOp::UpsertRun { run: run.clone(), complete: false })?,
                Ok(false) => {}
                Err(error) => self.retry(&file, cause, failures, &error),
            },
            Action::Check(kind) => self.check(&(run.clone(), kind), cause),
            Action::Settled => {
                let key = (run.clone(), FileKind::Complete);
                if let Some(followed_file) =
                    self.followed.get_mut(&key).filter(|r| r.phase == Phase::Settling)
                {
                    followed_file.phase = Phase::Final;
                }
                self.check(&key, cause);
            }
            Action::Finish(base) => {
                if let Some(mut followed_file) = self.followed.remove(&(run.clone(), FileKind::Growing)) {
                    let key = (run.clone(), FileKind::Complete);
                    followed_file.file = FetcherFile { run: run.clone(), base, kind: FileKind::Complete };
                    followed_file.phase = Phase::Final;
                    followed_file.queued = false;
                    self.followed.insert(key.clone(), followed_file);
                    self.enqueue(&key);
                }
            }
            Action::Delete => {
                self.forget(run);
                self.send(IngestOp::DeleteRun { run: run.clone() })?;
            }
            Action::Collision => {
                if self.warned.should_warn(looked_at.name().as_ref()) {
                    tracing::warn!(
                        name = looked_at.name(),
                        "ignored: its run is already read from another file"
                    );
                }
            }
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, run: &RunId) {
        for kind in [FileKind::Growing, FileKind::Complete] {
            self.followed.remove(&(run.clone(), kind));
        }
    }

    /// Starts to follow a file. Returns false if it vanished meanwhile; then there is no run
    /// (CONTRACT QF07).
    fn begin(&mut self, file: &FetcherFile, settle: bool, current: &CurrentFiles) -> io::Result<bool> {
        let now = Instant::now();
        let followed_file = match file.kind {
            // An open file keeps its inode from being reused for another file.
            FileKind::Growing => match probe::open(&self.input_dir.join(file.name()))? {
                Some((handle, meta)) => {
                    FollowedFile::new(file.clone(), probe::file_id(&meta), Phase::Growing, Some(handle), now)
                }
                None => return Ok(false),
            },
            FileKind::Complete => match &current.whole {
                Some((_, id)) => {
                    let phase = if settle { Phase::Settling } else { Phase::Final };
                    FollowedFile::new(file.clone(), *id, phase, None, now)
                }
                None => return Ok(false),
            },
        };
        self.tracking.began(file, followed_file.id);
        let key = (file.run.clone(), file.kind);
        let is_link = || self.input_dir.join(file.name()).is_symlink();
        if file.kind == FileKind::Growing && (followed_file.is_linked() || is_link()) {
            self.schedule.at(now + POLL_INTERVAL, Timer::Poll(key.clone(), followed_file.id));
        }
        self.followed.insert(key.clone(), followed_file);
        self.enqueue(&key);
        Ok(true)
    }

    fn check(&mut self, key: &Key, cause: Cause) {
        let Some(followed_file) = self.followed.get(key) else { return };
        // A run that is complete in the database is read only if its file changes (CONTRACT QD06).
        if !followed_file.unread || cause == Cause::Changed(Change::Modified) {
            self.enqueue(key);
        }
    }
}
