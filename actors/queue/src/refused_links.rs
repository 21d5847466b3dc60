//! Fetcher files that are symbolic links and are not followed (CONTRACT QR52), for listings.

use std::collections::BTreeMap;

use orchestrator_supervise::{ChildSpec, Durable};

use crate::{
    storage::{RunCount, RunId, RunState},
    verbs::RunRow,
};

/// Refused links by their names, each with its run and the reason. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RefusedLinks(Durable<BTreeMap<String, (RunId, String)>>);

impl Default for RefusedLinks {
    fn default() -> Self {
        Self(Durable::new("refused_links", BTreeMap::new()))
    }
}

impl RefusedLinks {
    /// Maximum number of names; further ones are not listed.
    const MAX: usize = 1024;

    /// Adds the names to the durable state of `child`, which sets them.
    pub(crate) fn declare(&self, child: ChildSpec) -> ChildSpec {
        child.durable(&self.0)
    }

    pub(crate) fn insert(&self, name: &str, run: &RunId, reason: String) {
        let mut links = self.0.lock();
        if links.len() < Self::MAX || links.contains_key(name) {
            links.insert(name.to_owned(), (run.clone(), reason));
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

    /// Returns a row of `queue ls` for each name.
    pub(crate) fn rows(&self) -> Vec<RunRow> {
        let links = self.0.lock();
        let row = |(name, (run, reason)): (&String, &(RunId, String))| RunRow {
            run: RunCount {
                state: RunState { run: run.clone(), complete: false },
                rows: 0,
                waiting: 0,
                deleted: false,
            },
            refused: Some(format!("{name}: {reason}")),
        };
        links.iter().map(row).collect()
    }
}
