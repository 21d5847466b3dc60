//! Parts of the queries.
//!
//! They are joined by `format!`, not views: questions are also asked of a schema of an older program.

use orchestrator_queue_rules::storage::Pattern;

/// Maximum size of the texts in an answer, in bytes. Rows beyond it are left out.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 20;

/// `started_key` of a path that was never handed out.
pub(super) const NEVER: &str = "(-9223372036854775808)::bigint";

pub(super) const NEWEST: &str = include_str!("../sql/inspect/newest_rows.sql");

pub(super) const OPEN_SLOTS: &str = include_str!("../sql/inspect/open_slots.sql");

pub(super) const BUMPED: &str = include_str!("../sql/inspect/bumped_groups.sql");

pub(super) fn class(attr_path: &str, fetcher: &str) -> String {
    format!(include_str!("../sql/inspect/class_of_row.sql"), attr_path = attr_path, fetcher = fetcher)
}

/// Returns a query of the rows of an ordered one until their texts, of `size` bytes each, exceed
/// [`ANSWER_BYTES_MAX`].
pub(super) fn within(size: &str, ordered: &str) -> String {
    format!(
        "SELECT * FROM (SELECT o.*, sum({size}) OVER (ROWS UNBOUNDED PRECEDING) AS bytes FROM ({ordered}) AS o) AS o
         WHERE bytes <= {ANSWER_BYTES_MAX}"
    )
}

pub(super) fn like(pattern: Option<&Pattern>) -> Option<String> {
    let mut like = String::new();
    for one in pattern?.as_str().chars() {
        match one {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', one]),
            _ => like.push(one),
        }
    }
    Some(like)
}
