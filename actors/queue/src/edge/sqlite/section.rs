//! Sections of the table of groups.

use crate::storage::GroupPosition;

/// Section of the ready groups of one representing run, held or not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Section {
    pub(super) fetcher_id: i64,
    pub(super) run_started: i64,
    pub(super) held: bool,
}

impl Section {
    /// Returns the section of a group at `position`.
    pub(super) fn of(position: &GroupPosition) -> Self {
        Self { fetcher_id: position.fetcher_id, run_started: position.run_started, held: position.held }
    }
}
