//! Rescan: compares the directory with the known runs, at the start and after lost events
//! (CONTRACT QF06).

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use orchestrator_supervise::reply;

use super::{
    followed_file::{FollowedFile, Phase},
    listing,
    probe::{self, PathKind},
    reader::{InitialRead, RETRY_DELAY, Reader, Stopped},
    schedule::Timer,
};
use crate::{
    file_name::{FetcherFile, FileKind},
    lines::LINE_BYTES_MAX,
    messages::IngestOp,
    storage::RunId,
    tracking::Cause,
};

/// Bytes of rows read before workers are answered for the first time. Small files are then read
/// completely, and large ones do not delay the answer. Lines without a row count up to the length
/// of one long line.
const INITIAL_ROW_BYTES: usize = 512 * 1024;

impl Reader {
    /// Processes a listing: new runs first, then runs without a file, so that a fetcher keeps its
    /// number when its last run is replaced (CONTRACT QC08).
    pub(super) fn rescan(&mut self) -> Result<(), Stopped> {
        let Some(known) = self.known_runs()? else {
            self.schedule.at(Instant::now() + RETRY_DELAY, Timer::Rescan);
            return Ok(());
        };
        let files = match listing::list(&self.input_dir, &self.warned) {
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
        for run in known.into_keys().filter(|run| !self.tracking.is_tracked(run)) {
            // No event will report a file that vanished after the listing.
            let gone = |file: &&FetcherFile| {
                matches!(probe::examine(&self.input_dir.join(file.name())), Ok(PathKind::Absent))
            };
            if listed.get(&run).is_none_or(|files| files.iter().all(gone)) {
                self.send(IngestOp::DeleteRun { run })?;
            }
        }
        if !std::mem::replace(&mut self.scanned, true) {
            self.initial_read = Some(InitialRead { rows: INITIAL_ROW_BYTES, text: LINE_BYTES_MAX });
        }
        Ok(())
    }

    /// Reports the end of the initial read, after which workers are answered.
    pub(super) fn finish_initial_read(&mut self) -> Result<(), Stopped> {
        let waiting = self.schedule.has_reading() && !self.cx.vitals.is_paused();
        if self.initial_read.as_ref().is_some_and(|left| left.rows == 0 || left.text == 0 || !waiting) {
            self.initial_read = None;
            self.send(IngestOp::Reconciled)?;
        }
        Ok(())
    }

    fn known_runs(&mut self) -> Result<Option<HashMap<RunId, bool>>, Stopped> {
        let (reply, answer) = reply();
        self.send(IngestOp::KnownRuns { reply })?;
        let wait = async {
            tokio::select! {
                biased;
                answer = answer => Ok(answer.ok()),
                () = self.cx.stop.cancelled() => Err(Stopped),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let Ok(runtime) = runtime else { return Ok(None) };
        let known = runtime.block_on(wait)?;
        Ok(known.map(|runs| runs.into_iter().map(|state| (state.run, state.complete)).collect()))
    }

    fn examine_listed(&mut self, files: &[FetcherFile], known: &HashMap<RunId, bool>) -> Result<(), Stopped> {
        for file in files {
            let is_complete = known.get(&file.run) == Some(&true);
            if is_complete && !self.tracking.is_tracked(&file.run) {
                self.skip(file);
            } else {
                self.examine(file, Cause::Listed, RETRY_DELAY)?;
            }
        }
        Ok(())
    }

    /// Records a file as followed without reading it, because the database has its run complete
    /// (CONTRACT QD06).
    fn skip(&mut self, file: &FetcherFile) {
        if file.kind == FileKind::Complete
            && let Ok(PathKind::Regular(id)) = probe::examine(&self.input_dir.join(file.name()))
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
                self.examine(&file, Cause::Listed, RETRY_DELAY)?;
                departed.insert(file.run);
            }
        }
        // A run that lost one of its two files is read again from the other.
        for file in files.iter().filter(|file| departed.contains(&file.run)) {
            self.examine(file, Cause::Listed, RETRY_DELAY)?;
        }
        Ok(())
    }
}
