//! Ready groups of one attribute path.

use orchestrator_queue_rules::storage::{GroupKey, RunId};
use rusqlite::Connection;

/// Groups with the runs and the rowids of their rows.
pub(super) fn ready_groups(
    conn: &Connection,
    attr_path: &str,
) -> rusqlite::Result<Vec<(GroupKey, RunId, i64)>> {
    conn.prepare_cached(
        "SELECT q.fetcher_id, q.last_started, q.order_jitter, f.name, q.fetcher_run_started, q.rowid
         FROM queue AS q JOIN fetchers AS f USING (fetcher_id)
         WHERE q.attr_path = ?1 AND q.is_dequeued = 0
             AND NOT EXISTS (
                 SELECT 1 FROM orchestrator_deleted_run AS d
                 WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
             AND NOT EXISTS (
                 SELECT 1 FROM queue AS newer
                 WHERE newer.attr_path = ?1 AND newer.fetcher_id = q.fetcher_id
                     AND newer.fetcher_run_started > q.fetcher_run_started
                     AND NOT EXISTS (
                         SELECT 1 FROM orchestrator_deleted_run AS d
                         WHERE d.fetcher_id = newer.fetcher_id AND d.run_started = newer.fetcher_run_started))
         ORDER BY q.fetcher_id",
    )?
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
