//! Decides what the reader does after an event of a fetcher file (CONTRACT QF07).
//!
//! [`Tracking`] stores the file that each run is read from. From a change and the files that the
//! run's names refer to now ([`CurrentFiles`]), it decides the reader's [`Action`]s. Events may be
//! outdated, so a name that still refers to the followed file is never treated as removed. It does
//! no I/O and uses no clock.
//!
//! | change | followed | names now refer to | action |
//! | --- | --- | --- | --- |
//! | part appears | no | a part | follow it (CONTRACT QC01, QC09) |
//! | whole appears | no | a whole file | read it (CONTRACT QC02, QR10, QR11) |
//! | whole appears | its part | the whole name is that file, the part name is not | finish (CONTRACT QC05) |
//! | either is written | yes | | read on (CONTRACT QC04, QC06, QR12) |
//! | part is removed or replaced | yes | the whole name is the same file | finish (CONTRACT QC05, QC22) |
//! | part is removed or replaced | yes | otherwise | delete the run, ignore the file (CONTRACT QC23, QC24) |
//! | whole is removed | yes | | delete the run (CONTRACT QC03); a remaining part is read from its start |
//! | whole is replaced | yes | another whole file | read that one and keep the rows |
//! | anything else | | | nothing |
//!
//! "part" is the growing name (`.txt.part`), "whole" the complete name (`.txt`).

use std::collections::HashMap;

use crate::{
    file_name::{FetcherFile, FileKind, canonical_base},
    storage::RunId,
};

/// Identity of a file, independent of its name. Valid while the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Kind of a directory event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The name was created, also by link(2).
    Created,
    /// The file was written or truncated.
    Modified,
    /// A writer closed the file.
    Closed,
    /// The file was renamed to this name.
    MovedTo,
    /// The file was renamed away from this name.
    MovedFrom,
    /// The name was removed.
    Deleted,
}

/// Reason to examine a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The file is in a listing, or it was followed and is missing there.
    Listed,
    /// A directory event.
    Changed(Change),
}

/// Files that the names of a run refer to now. Only regular files count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentFiles {
    /// File of the growing name.
    pub part: Option<FileId>,
    /// First of [`Names::wholes`] that is a file.
    pub whole: Option<(String, FileId)>,
}

/// File names that [`CurrentFiles`] is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Growing name.
    pub part: String,
    /// Complete names, the most likely first.
    pub wholes: Vec<String>,
}

/// Action of the reader on a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read this file from its start, and call [`Tracking::began`] once its inode is known.
    Begin {
        /// The file.
        file: FetcherFile,
        /// True if a writer may still be active, so that `complete` waits for its end
        /// (CONTRACT QR12).
        settle: bool,
    },
    /// Read on in this kind of file.
    Check(FileKind),
    /// Read the complete file to its end; its writer has closed it, so the run is then complete.
    Settled,
    /// Read the rest of the growing file, which was renamed to this base name.
    Finish(String),
    /// Delete the run and its rows, and stop reading its files.
    Delete,
    /// Warn that the run is already read from a file with another spelling of its number.
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

/// The files that runs are read from.
#[derive(Debug, Default)]
pub struct Tracking {
    runs: HashMap<RunId, Run>,
}

impl Tracking {
    /// True if a file of the run is read.
    pub fn is_tracked(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    /// True if no file is read.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The files that are read.
    pub fn files(&self) -> Vec<FetcherFile> {
        let file = |run: &RunId, source: &Option<Source>, kind| {
            source.as_ref().map(|source| FetcherFile { run: run.clone(), base: source.base.clone(), kind })
        };
        let of_run = |(id, run): (&RunId, &Run)| {
            [file(id, &run.part, FileKind::Growing), file(id, &run.whole, FileKind::Complete)]
        };
        self.runs.iter().flat_map(of_run).flatten().collect()
    }

    /// Records that the reader opened this file, or skips it because its run is complete.
    pub fn began(&mut self, file: &FetcherFile, id: FileId) {
        let run = self.runs.entry(file.run.clone()).or_default();
        let source = Some(Source { base: file.base.clone(), id });
        match file.kind {
            FileKind::Growing => run.part = source,
            FileKind::Complete => run.whole = source,
        }
    }

    /// Forgets the files of a run.
    pub fn forget(&mut self, run: &RunId) {
        self.runs.remove(run);
    }

    /// Names under which files of the run may be now.
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

    /// Follows the table of the module (CONTRACT QF07). A change of another file of a run that is already
    /// read is reported as a collision.
    pub fn decide(&mut self, file: &FetcherFile, cause: Cause, current: &CurrentFiles) -> Vec<Action> {
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
            (_, FileKind::Growing) => run.part_changed(file, cause, current),
            (_, FileKind::Complete) => run.whole_changed(file, cause, current),
        };
        if run.part.is_none() && run.whole.is_none() {
            self.runs.remove(&file.run);
        }
        actions
    }
}

impl Run {
    fn part_changed(&mut self, file: &FetcherFile, cause: Cause, current: &CurrentFiles) -> Vec<Action> {
        let begin = (appears(cause) && current.part.is_some())
            .then(|| Action::Begin { file: file.clone(), settle: false });
        match &self.part {
            None => begin.into_iter().collect(),
            Some(part) if is_write(cause) || current.part == Some(part.id) => {
                vec![Action::Check(FileKind::Growing)]
            }
            Some(part) => {
                let id = part.id;
                let mut actions = vec![self.part_removed(id, current)];
                actions.extend(begin);
                actions
            }
        }
    }

    fn part_removed(&mut self, id: FileId, current: &CurrentFiles) -> Action {
        self.part = None;
        match &current.whole {
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

    fn whole_changed(&mut self, file: &FetcherFile, cause: Cause, current: &CurrentFiles) -> Vec<Action> {
        let now = current.whole.as_ref().filter(|(base, _)| *base == file.base).map(|&(_, id)| id);
        match (&self.whole, now) {
            (None, None) => Vec::new(),
            (Some(_), _) if cause == Cause::Changed(Change::Closed) => vec![Action::Settled],
            (Some(_), _) if is_write(cause) => vec![Action::Check(FileKind::Complete)],
            (Some(whole), Some(id)) if whole.id == id => vec![Action::Check(FileKind::Complete)],
            (_, Some(id)) if appears(cause) => match &self.part {
                Some(part) if part.id == id && current.part != Some(id) => {
                    vec![self.part_removed(id, current)]
                }
                _ => {
                    let settle = cause == Cause::Changed(Change::Created);
                    vec![Action::Begin { file: file.clone(), settle }]
                }
            },
            (None, Some(_)) => Vec::new(),
            (Some(_), _) => self.whole_removed(file, current),
        }
    }

    fn whole_removed(&mut self, file: &FetcherFile, current: &CurrentFiles) -> Vec<Action> {
        self.whole = None;
        let part = self.part.take().filter(|part| current.part == Some(part.id));
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
