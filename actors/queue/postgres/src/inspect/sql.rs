//! Parts of the queries, joined by `format!`.

/// `started_key` of a path that was never handed out.
pub(super) const NEVER: &str = "(-9223372036854775808)::bigint";

/// Common table expressions in front of a question.
pub(super) fn views() -> String {
    format!(include_str!("../sql/views.sql"), class = class("g.attr_path", "f.name"))
}

pub(super) const OPEN_SLOTS: &str = include_str!("../sql/inspect/open_slots.sql");

pub(super) const BUMPED: &str = include_str!("../sql/inspect/bumped_groups.sql");

pub(super) fn class(attr_path: &str, fetcher: &str) -> String {
    format!(include_str!("../sql/inspect/class_of_row.sql"), attr_path = attr_path, fetcher = fetcher)
}
