//! How the table of groups is divided.

use crate::storage::Place;

/// Ready groups of one representing run, held or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Section {
    pub(super) fetcher_id: i64,
    pub(super) run_started: i64,
    pub(super) held: bool,
}

impl Section {
    /// Where a group at `place` belongs.
    pub(super) fn of(place: &Place) -> Self {
        Self { fetcher_id: place.fetcher_id, run_started: place.run_started, held: place.held }
    }
}
