//! Parts of the queries, joined by `format!`.

use orchestrator_queue_store::questions::with_views;

/// `started_key` of a path that was never handed out.
pub(super) const NEVER: &str = "(-9223372036854775808)::bigint";

/// Views for questions of both stores.
pub(super) fn views() -> String {
    format!(include_str!("../sql/views.sql"), class = class("g.attr_path", "f.name"))
}

/// Beginning of a statement that uses the view `newest`.
pub(super) fn with_newest() -> String {
    with_views(&views(), "newest")
}

pub(super) const OPEN_SLOTS: &str = include_str!("../sql/inspect/open_slots.sql");

pub(super) const BUMPED: &str = include_str!("../sql/inspect/bumped_groups.sql");

pub(super) fn class(attr_path: &str, fetcher: &str) -> String {
    format!(include_str!("../sql/inspect/class_of_row.sql"), attr_path = attr_path, fetcher = fetcher)
}
