//! Values of the column `held` in the table of groups.

use crate::storage::{Class, LIMITS_MAX, Limits, Section};

/// Returns all values of the column `held` with these limits.
pub(super) fn columns(limits: &Limits) -> Vec<usize> {
    (0..2 * (limits.0.len().min(LIMITS_MAX) + 1)).collect()
}

/// Returns the value of the column `held` of a section: 0 or 1, and twice the class.
pub(super) fn column(section: Section) -> i64 {
    i64::from(section.class) * 2 + i64::from(section.held)
}

/// Returns the section of a row with `column` as `held`.
pub(super) fn with_column(fetcher_id: i64, run_started: i64, column: i64) -> Section {
    let class = Class::try_from(column / 2).unwrap_or(Class::MAX);
    Section { fetcher_id, run_started, class, held: column % 2 != 0 }
}
