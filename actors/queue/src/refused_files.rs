//! Fetcher files that are not read, for listings. They are links that are not followed (CONTRACT QR52), and
//! files of fetchers that belong to another instance (CONTRACT QF09).

use std::collections::BTreeMap;

use orchestrator_queue_rules::storage::{RunCount, RunId, RunState};
use orchestrator_supervise::{ChildSpec, Durable};

use crate::verbs::RunRow;

/// Refused files by their names, each with its run and the reason. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RefusedFiles(Durable<BTreeMap<String, (RunId, String)>>);

/// Files of the directory that are not read.
#[derive(Debug, Clone)]
pub(crate) struct RefusedInDirectory {
    /// Links that are not followed.
    pub(crate) links: RefusedFiles,
    /// Files of fetchers that belong to another instance.
    pub(crate) fetchers: RefusedFiles,
}

impl Default for RefusedInDirectory {
    fn default() -> Self {
        Self { links: RefusedFiles::new("refused_links"), fetchers: RefusedFiles::new("refused_fetchers") }
    }
}

impl RefusedFiles {
    /// Maximum number of names; further ones are not listed.
    const MAX: usize = 1024;

    /// Creates the durable state `name`.
    fn new(name: &'static str) -> Self {
        Self(Durable::new(name, BTreeMap::new()))
    }

    /// Adds the names to the durable state of `child`, which sets them.
    pub(crate) fn declare(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.0)
    }

    pub(crate) fn insert(&self, name: &str, run: &RunId, reason: String) {
        let mut files = self.0.lock();
        if files.len() < Self::MAX || files.contains_key(name) {
            files.insert(name.to_owned(), (run.clone(), reason));
        }
    }

    /// Removes a name that is another file by now, or none.
    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Removes all names, before a listing.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.lock().len() as u64
    }

    pub(crate) fn has_fetcher(&self, fetcher: &str) -> bool {
        self.0.lock().values().any(|(run, _)| run.fetcher == fetcher)
    }

    /// Returns fetcher and reason of the first name.
    pub(crate) fn first(&self) -> Option<(String, String)> {
        self.0.lock().values().next().map(|(run, reason)| (run.fetcher.clone(), reason.clone()))
    }

    /// Returns a row of `queue ls` for each name.
    pub(crate) fn rows(&self) -> Vec<RunRow> {
        let files = self.0.lock();
        let row = |(name, (run, reason)): (&String, &(RunId, String))| RunRow {
            run: RunCount {
                state: RunState { run: run.clone(), complete: false },
                rows: 0,
                waiting: 0,
                deleted: false,
            },
            refused: Some(format!("{name}: {reason}")),
        };
        files.iter().map(row).collect()
    }
}
