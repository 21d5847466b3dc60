//! The comparison of the directory with what is known: at the start, and whenever events may have been lost
//! (CONTRACT QF06).

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use orchestrator_supervise::reply;

use super::{
    agenda::Timer,
    listing,
    probe::{self, Seen},
    reader::{FirstRound, RETRY, Reader, Stopped},
    reading::{Phase, Reading},
};
use crate::{
    file_name::{FetcherFile, FileKind},
    lines::LINE_BYTES_MAX,
    messages::IngestOp,
    storage::RunId,
    tracking::Cause,
};

/// So much text of rows, in bytes, is read before workers are answered for the first time, so that a start with small files
/// answers as if all had been read, and one with large files answers soon. Lines without a row count as far as one long line.
const FIRST_ROUND_BYTES: usize = 512 * 1024;

impl Reader {
    /// Works in a listing: new runs first, then the end of those without a file, so that a fetcher keeps its place
    /// when an old run goes and a new one comes (CONTRACT QC08).
    pub(super) fn rescan(&mut self) -> Result<(), Stopped> {
        let Some(known) = self.known_runs()? else {
            self.agenda.at(Instant::now() + RETRY, Timer::Rescan);
            return Ok(());
        };
        let files = match listing::list(&self.input_dir, &self.warned) {
            Ok(files) => files,
            Err(error) => {
                // A directory that is away has no files to miss: all runs stay (CONTRACT QR15).
                tracing::debug!(%error, "cannot list the input directory: trying again");
                self.agenda.at(Instant::now() + RETRY, Timer::Rescan);
                return Ok(());
            }
        };
        self.arrivals(&files, &known)?;
        self.departures(&files)?;
        let mut listed: HashMap<&RunId, Vec<&FetcherFile>> = HashMap::new();
        files.iter().for_each(|file| listed.entry(&file.run).or_default().push(file));
        for run in known.into_keys().filter(|run| !self.tracking.is_tracked(run)) {
            // A file that went between the listing and the look at it is not followed, so nobody will tell of its end.
            let gone = |file: &&FetcherFile| {
                matches!(probe::look(&self.input_dir.join(file.name())), Ok(Seen::Absent))
            };
            if listed.get(&run).is_none_or(|files| files.iter().all(gone)) {
                self.send(IngestOp::DeleteRun { run })?;
            }
        }
        if !std::mem::replace(&mut self.scanned, true) {
            self.reconciling = Some(FirstRound { rows: FIRST_ROUND_BYTES, text: LINE_BYTES_MAX });
        }
        Ok(())
    }

    /// Lets workers be answered, once the first listing is worked in and some text read.
    pub(super) fn answer_workers(&mut self) -> Result<(), Stopped> {
        let waiting = self.agenda.has_reading() && !self.cx.vitals.is_paused();
        if self.reconciling.as_ref().is_some_and(|left| left.rows == 0 || left.text == 0 || !waiting) {
            self.reconciling = None;
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

    fn arrivals(&mut self, files: &[FetcherFile], known: &HashMap<RunId, bool>) -> Result<(), Stopped> {
        for file in files {
            let is_complete = known.get(&file.run) == Some(&true);
            if is_complete && !self.tracking.is_tracked(&file.run) {
                self.skip(file);
            } else {
                self.look(file, Cause::Listed, RETRY)?;
            }
        }
        Ok(())
    }

    /// The database has the run complete: its file is known, and not read (CONTRACT QD06).
    fn skip(&mut self, file: &FetcherFile) {
        if file.kind == FileKind::Complete
            && let Ok(Seen::Regular(id)) = probe::look(&self.input_dir.join(file.name()))
        {
            self.tracking.began(file, id);
            let reading = Reading::new(file.clone(), id, Phase::Done, None, Instant::now());
            self.readings.insert((file.run.clone(), file.kind), reading);
        }
    }

    fn departures(&mut self, files: &[FetcherFile]) -> Result<(), Stopped> {
        let listed: HashSet<&FetcherFile> = files.iter().collect();
        let mut departed = HashSet::new();
        for file in self.tracking.files() {
            if !listed.contains(&file) {
                self.look(&file, Cause::Listed, RETRY)?;
                departed.insert(file.run);
            }
        }
        // A run may have lost one of two files, and be read anew from the other.
        for file in files.iter().filter(|file| departed.contains(&file.run)) {
            self.look(file, Cause::Listed, RETRY)?;
        }
        Ok(())
    }
}
