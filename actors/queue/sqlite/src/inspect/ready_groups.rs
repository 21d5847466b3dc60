//! Ready groups of one attribute path.

use orchestrator_queue_rules::storage::{GroupKey, RunId};
use rusqlite::Connection;

/// Groups with the runs and the rowids of their rows.
pub(super) fn ready_groups(
    conn: &Connection,
    attr_path: &str,
) -> rusqlite::Result<Vec<(GroupKey, RunId, i64)>> {
    conn.prepare_cached(include_str!("../sql/inspect/ready_groups.sql"))?
        .query_map([attr_path], |row| {
            let key = GroupKey {
                last_started: row.get(1)?,
                order_jitter: row.get(2)?,
                attr_path: attr_path.to_owned(),
                fetcher_id: row.get(0)?,
            };
            Ok((key, RunId { fetcher: row.get(3)?, started: row.get(4)? }, row.get(5)?))
        })?
        .collect()
}
