//! Actions on a fetcher file after an event of its name (CONTRACT QF07).
//!
//! [`Tracking`] remembers which file each run's lines come from. Told of a change and of what the run's names stand for
//! *now* ([`Facts`]), it decides what the reader does ([`Action`]). An event only says where to look: it may be older
//! than what is seen, so a name that still stands for the file that is followed is never taken for gone.
//! No I/O and no clock: the reader opens, reads and waits.
//!
//! | change | followed | the names now | action |
//! | --- | --- | --- | --- |
//! | part appears | no | part there | follow it (CONTRACT QC01, QC09) |
//! | whole appears | no | whole there | read it (CONTRACT QC02, QR10, QR11) |
//! | whole appears | its part | whole is that file, part is not | finish (CONTRACT QC05) |
//! | either is written | yes | | read further (CONTRACT QC04, QC06, QR12) |
//! | part leaves or is replaced | yes | whole is the same file | finish (CONTRACT QC05, QC22) |
//! | part leaves or is replaced | yes | otherwise | delete the run, and do not look at whole (CONTRACT QC23, QC24) |
//! | whole leaves | yes | | delete the run (CONTRACT QC03); a part that is still there starts anew |
//! | whole is replaced | yes | whole is another file | read that one, keeping the rows |
//! | anything else | | | nothing |

use std::collections::HashMap;

use crate::{
    file_name::{FetcherFile, FileKind, canonical_base},
    messages::Change,
    storage::RunId,
};

/// A file, whatever its name. Valid while the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Number of the file system.
    pub device: u64,
    /// Number in the file system.
    pub inode: u64,
}

/// Why a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is in a listing, or was followed and is not.
    Listed,
    /// An event.
    Changed(Change),
}

/// What the names of a run stand for now. Only regular files count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The file behind the growing name.
    pub part: Option<FileId>,
    /// The first of [`Names::wholes`] that is a file.
    pub whole: Option<(String, FileId)>,
}

/// The names to find out [`Facts`] about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The growing name.
    pub part: String,
    /// Complete names, the likeliest first.
    pub wholes: Vec<String>,
}

/// What the reader has to do for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read this file from its beginning; say [`Tracking::began`] once its inode is known.
    Begin {
        /// The file.
        file: FetcherFile,
        /// A writer may still be at it: `complete` waits for a sign that it is not (CONTRACT QR12).
        settle: bool,
    },
    /// Read further in this kind of file.
    Check(FileKind),
    /// The writer of the complete file has closed it: read further, then it is complete.
    Settled,
    /// The growing file has become complete under this base name: read the rest of it.
    Finish(String),
    /// Delete the run and its rows, stop reading its files.
    Delete,
    /// Warn: the run is already read from a file with another spelling of its number.
    Collision,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    base: String,
    id: FileId,
}

#[derive(Debug, Default)]
struct Run {
    part: Option<Source>,
    whole: Option<Source>,
}

/// Which files the runs are read from.
#[derive(Debug, Default)]
pub struct Tracking {
    runs: HashMap<RunId, Run>,
}

impl Tracking {
    /// Whether any file of the run is followed.
    #[must_use]
    pub fn is_tracked(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    /// Every file that is followed.
    #[must_use]
    pub fn files(&self) -> Vec<FetcherFile> {
        let file = |run: &RunId, source: &Option<Source>, kind| {
            source.as_ref().map(|source| FetcherFile { run: run.clone(), base: source.base.clone(), kind })
        };
        let of_run = |(id, run): (&RunId, &Run)| {
            [file(id, &run.part, FileKind::Growing), file(id, &run.whole, FileKind::Complete)]
        };
        self.runs.iter().flat_map(of_run).flatten().collect()
    }

    /// The reader opened this file, or skips it because its run is complete.
    pub fn began(&mut self, file: &FetcherFile, id: FileId) {
        let run = self.runs.entry(file.run.clone()).or_default();
        let source = Some(Source { base: file.base.clone(), id });
        match file.kind {
            FileKind::Growing => run.part = source,
            FileKind::Complete => run.whole = source,
        }
    }

    /// The names that decide about a change of `file`.
    #[must_use]
    pub fn names(&self, file: &FetcherFile) -> Names {
        let run = self.runs.get(&file.run);
        let part = run.and_then(|run| run.part.as_ref()).map_or(&file.base, |part| &part.base);
        let mut wholes = match run.and_then(|run| run.whole.as_ref()) {
            Some(whole) => vec![whole.base.clone()],
            None => vec![file.base.clone(), part.clone(), canonical_base(&file.run)],
        };
        wholes.dedup();
        Names { part: format!("{part}.part"), wholes }
    }

    /// Decides; see the table on top.
    pub fn decide(&mut self, file: &FetcherFile, cause: Cause, facts: &Facts) -> Vec<Action> {
        let run = self.runs.entry(file.run.clone()).or_default();
        let source = match file.kind {
            FileKind::Growing => &run.part,
            FileKind::Complete => &run.whole,
        };
        let actions = match (source, file.kind) {
            (Some(source), _) if source.base != file.base => {
                if appears(cause) {
                    vec![Action::Collision]
                } else {
                    Vec::new()
                }
            }
            (_, FileKind::Growing) => run.part_changed(file, cause, facts),
            (_, FileKind::Complete) => run.whole_changed(file, cause, facts),
        };
        if run.part.is_none() && run.whole.is_none() {
            self.runs.remove(&file.run);
        }
        actions
    }
}

impl Run {
    fn part_changed(&mut self, file: &FetcherFile, cause: Cause, facts: &Facts) -> Vec<Action> {
        let begin = (appears(cause) && facts.part.is_some())
            .then(|| Action::Begin { file: file.clone(), settle: false });
        match &self.part {
            None => begin.into_iter().collect(),
            Some(part) if is_write(cause) || facts.part == Some(part.id) => {
                vec![Action::Check(FileKind::Growing)]
            }
            Some(part) => {
                let id = part.id;
                let mut actions = vec![self.part_left(id, facts)];
                actions.extend(begin);
                actions
            }
        }
    }

    fn part_left(&mut self, id: FileId, facts: &Facts) -> Action {
        self.part = None;
        match &facts.whole {
            Some((base, whole)) if *whole == id => {
                self.whole = Some(Source { base: base.clone(), id });
                Action::Finish(base.clone())
            }
            _ => {
                self.whole = None;
                Action::Delete
            }
        }
    }

    fn whole_changed(&mut self, file: &FetcherFile, cause: Cause, facts: &Facts) -> Vec<Action> {
        let now = facts.whole.as_ref().filter(|(base, _)| *base == file.base).map(|&(_, id)| id);
        match (&self.whole, now) {
            (None, None) => Vec::new(),
            (Some(_), _) if cause == Cause::Changed(Change::Closed) => vec![Action::Settled],
            (Some(_), _) if is_write(cause) => vec![Action::Check(FileKind::Complete)],
            (Some(whole), Some(id)) if whole.id == id => vec![Action::Check(FileKind::Complete)],
            (_, Some(id)) if appears(cause) => match &self.part {
                Some(part) if part.id == id && facts.part != Some(id) => vec![self.part_left(id, facts)],
                _ => {
                    let settle = cause == Cause::Changed(Change::Created);
                    vec![Action::Begin { file: file.clone(), settle }]
                }
            },
            (None, Some(_)) => Vec::new(),
            (Some(_), _) => self.whole_left(file, facts),
        }
    }

    fn whole_left(&mut self, file: &FetcherFile, facts: &Facts) -> Vec<Action> {
        self.whole = None;
        let part = self.part.take().filter(|part| facts.part == Some(part.id));
        let again = part.map(|part| {
            let file = FetcherFile { run: file.run.clone(), base: part.base, kind: FileKind::Growing };
            Action::Begin { file, settle: false }
        });
        [Action::Delete].into_iter().chain(again).collect()
    }
}

fn appears(cause: Cause) -> bool {
    matches!(cause, Cause::Listed | Cause::Changed(Change::Created | Change::MovedTo))
}

fn is_write(cause: Cause) -> bool {
    matches!(cause, Cause::Changed(Change::Modified | Change::Closed))
}

#[cfg(test)]
mod tests;
