//! Sections of the table of groups.

use crate::storage::{Class, GroupPosition, LIMITS_MAX, Limits};

/// Section of the ready groups of one representing run and one class, held or not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Section {
    pub(super) fetcher_id: i64,
    pub(super) run_started: i64,
    pub(super) class: Class,
    pub(super) held: bool,
}

/// Returns all values of the column `held` with these limits.
pub(super) fn columns(limits: &Limits) -> Vec<usize> {
    (0..2 * (limits.0.len().min(LIMITS_MAX) + 1)).collect()
}

impl Section {
    /// Returns the section of a group at `position`.
    pub(super) fn of(position: &GroupPosition) -> Self {
        Self {
            fetcher_id: position.fetcher_id,
            run_started: position.run_started,
            class: position.class,
            held: position.held,
        }
    }

    /// Returns the value of the column `held`: 0 or 1, and twice the class.
    pub(super) fn column(self) -> i64 {
        i64::from(self.class) * 2 + i64::from(self.held)
    }

    /// Returns the section of a row with `column` as `held`.
    pub(super) fn with_column(fetcher_id: i64, run_started: i64, column: i64) -> Self {
        let class = Class::try_from(column / 2).unwrap_or(Class::MAX);
        Self { fetcher_id, run_started, class, held: column % 2 != 0 }
    }
}
