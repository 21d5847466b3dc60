//! Rescan: compares the directory with the known runs, at the start and after lost events
//! (CONTRACT QF06).

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use orchestrator_queue_rules::{
    file_name::{FetcherFile, FileKind, canonical_base},
    lines::LINE_BYTES_MAX,
    storage::RunId,
    tracking::Cause,
};
use orchestrator_supervise::{block_on, reply};

use super::{
    followed_file::{FollowedFile, Phase},
    listing::{self, Ignored},
    probe::{self, PathKind},
    reader::{InitialRead, RETRY_DELAY, Reader, Stopped},
    schedule::Timer,
};
use crate::messages::IngestOp;

/// Bytes of rows read before workers are answered for the first time. Small files are then read
/// completely, and large ones do not delay the answer. Lines without a row count up to the length
/// of one long line.
const INITIAL_ROW_BYTES: usize = 512 * 1024;

impl Reader {
    /// Processes a listing: new runs first, then runs without a file. So a fetcher keeps its number when its
    /// last run is replaced (CONTRACT QC08). With `is_moved`, files of runs that the store does not know are
    /// read anew.
    pub(super) fn rescan(&mut self, is_moved: bool) -> Result<(), Stopped> {
        let Some(known) = self.known_runs()? else {
            self.schedule.at(Instant::now() + RETRY_DELAY, Timer::Rescan);
            return Ok(());
        };
        self.refused.links.clear();
        self.refused.fetchers.clear();
        if is_moved {
            for file in self.tracking.files() {
                if !known.contains_key(&file.run) {
                    self.set_aside(&file.run);
                }
            }
        }
        self.unread_files.forget_misnamed();
        let listed = listing::list(&self.input_dir, &self.warned, |name, ignored| match ignored {
            Ignored::Misnamed(error) => {
                self.unread_files.ignore(name, error);
                self.unread_files.set_misnamed(name, true);
            }
            Ignored::Irregular => self.unread_files.ignore(name, "not a regular file"),
            Ignored::Other => self.unread_files.ignore_other(name),
        });
        let files = match listed {
            Ok(files) => files,
            Err(error) => {
                // While the directory is missing all runs stay (CONTRACT QR15).
                tracing::debug!(%error, "cannot list the input directory: trying again");
                self.schedule.at(Instant::now() + RETRY_DELAY, Timer::Rescan);
                return Ok(());
            }
        };
        self.examine_listed(&files, &known)?;
        self.examine_missing(&files)?;
        let mut listed: HashMap<&RunId, Vec<&FetcherFile>> = HashMap::new();
        files.iter().for_each(|file| listed.entry(&file.run).or_default().push(file));
        for (run, is_complete) in &known {
            if !self.tracking.is_tracked(run) {
                self.examine_unfollowed(run, *is_complete, listed.get(run).map_or(&[], Vec::as_slice))?;
            }
        }
        if !std::mem::replace(&mut self.scanned, true) {
            self.initial_read = Some(InitialRead { rows: INITIAL_ROW_BYTES, text: LINE_BYTES_MAX });
        }
        Ok(())
    }

    /// Reports the end of the initial read, after which workers are answered.
    pub(super) fn finish_initial_read(&mut self) -> Result<(), Stopped> {
        let waiting = self.schedule.has_reading() && !self.cx.child.is_paused();
        if self.initial_read.as_ref().is_some_and(|left| left.rows == 0 || left.text == 0 || !waiting) {
            self.initial_read = None;
            self.send(IngestOp::Reconciled)?;
        }
        Ok(())
    }

    /// Deletes a known run that no listed file led to, unless one of its names refers to a file after all. A
    /// listing may miss a file that is renamed meanwhile, and a deleted run would be handed out again
    /// (CONTRACT QF06).
    fn examine_unfollowed(
        &mut self,
        run: &RunId,
        is_complete: bool,
        listed: &[&FetcherFile],
    ) -> Result<(), Stopped> {
        let mut bases: Vec<String> = listed.iter().map(|file| file.base.clone()).collect();
        bases.push(canonical_base(run));
        bases.dedup();
        // The growing name first: a file that was renamed before that look has its complete name by now.
        for kind in [FileKind::Growing, FileKind::Complete] {
            for base in &bases {
                let file = FetcherFile { run: run.clone(), base: base.clone(), kind };
                match probe::examine(&self.input_dir.join(file.name())) {
                    // A refused link may have been read by an earlier version of this program.
                    Ok(PathKind::Absent | PathKind::Refused(_)) => {}
                    Ok(PathKind::Irregular(_)) if listed.is_empty() => {}
                    // A failed look is no proof of absence: it is repeated, and the run stays until then.
                    _ => return self.examine_known(&file, is_complete),
                }
            }
        }
        // No event will report a file that vanished after the listing.
        self.send(IngestOp::DeleteRun { run: run.clone() })
    }

    fn known_runs(&mut self) -> Result<Option<HashMap<RunId, bool>>, Stopped> {
        let (reply, answer) = reply();
        self.send(IngestOp::KnownRuns { reply })?;
        let stop = self.cx.stop.clone();
        let wait = async {
            tokio::select! {
                biased;
                answer = answer => Ok(answer.ok()),
                () = stop.cancelled() => Err(Stopped),
            }
        };
        let known = self.while_waiting(|_| block_on(None, wait)).unwrap_or(Ok(None))?;
        Ok(known.map(|runs| runs.into_iter().map(|state| (state.run, state.complete)).collect()))
    }

    fn examine_listed(&mut self, files: &[FetcherFile], known: &HashMap<RunId, bool>) -> Result<(), Stopped> {
        for file in files {
            self.examine_known(file, known.get(&file.run) == Some(&true))?;
        }
        Ok(())
    }

    fn examine_known(&mut self, file: &FetcherFile, is_complete: bool) -> Result<(), Stopped> {
        self.cx.vitals.progress();
        if is_complete && !self.tracking.is_tracked(&file.run) {
            self.skip(file);
            return Ok(());
        }
        self.examine(file, Cause::Listed, 0)
    }

    /// Records a file as followed without reading it, because the database has its run complete
    /// (CONTRACT QD06).
    fn skip(&mut self, file: &FetcherFile) {
        if let Ok(Some(id)) = self.regular(&file.run, &file.name())
            && file.kind == FileKind::Complete
        {
            self.tracking.began(file, id);
            let followed_file = FollowedFile::new(file.clone(), id, Phase::Done, None, Instant::now());
            self.followed.insert((file.run.clone(), file.kind), followed_file);
        }
    }

    fn examine_missing(&mut self, files: &[FetcherFile]) -> Result<(), Stopped> {
        let listed: HashSet<&FetcherFile> = files.iter().collect();
        let mut departed = HashSet::new();
        for file in self.tracking.files() {
            if !listed.contains(&file) {
                self.examine(&file, Cause::Listed, 0)?;
                departed.insert(file.run);
            }
        }
        // A run that lost one of its two files is read again from the other.
        for file in files.iter().filter(|file| departed.contains(&file.run)) {
            self.examine(file, Cause::Listed, 0)?;
        }
        Ok(())
    }
}
