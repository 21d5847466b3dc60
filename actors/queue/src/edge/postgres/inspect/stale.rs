//! Question about waiting jobs that were not tried for long.

use super::question::{Question, rows};
use super::sql::{NEWEST, class, within};
use crate::edge::postgres::session::get;
use orchestrator_queue_rules::storage::{RunId, StaleGroup, StorageError};

pub(super) async fn stale(
    question: &mut Question<'_>,
    before: i64,
    limit: usize,
) -> Result<Vec<StaleGroup>, StorageError> {
    let class = class("g.attr_path", "f.name");
    // The second part is not read if the first has enough rows.
    let ordered = format!(
        "(SELECT g.attr_path, f.name, g.run_started, log.started, g.added
          FROM log JOIN {NEWEST} AS g USING (attr_path) JOIN fetcher AS f USING (fetcher_id)
          WHERE log.started < $1
          ORDER BY log.started, g.order_jitter, g.attr_path, g.fetcher_id LIMIT $2)
         UNION ALL
         (SELECT g.attr_path, f.name, g.run_started, NULL, g.added
          FROM {NEWEST} AS g JOIN fetcher AS f USING (fetcher_id)
          WHERE g.added < $1 AND NOT g.is_dequeued AND NOT EXISTS (SELECT 1 FROM log WHERE log.attr_path = g.attr_path)
          ORDER BY g.fetcher_id, g.run_started, {class}, g.order_jitter, g.attr_path LIMIT $2)
         LIMIT $2"
    );
    let sql = within("octet_length(attr_path) + octet_length(name)", &ordered);
    let read = |row: &_| {
        Ok(StaleGroup {
            attr_path: get(row, 0)?,
            run: RunId { fetcher: get(row, 1)?, started: get(row, 2)? },
            last_started: get(row, 3)?,
            listed: get(row, 4)?,
        })
    };
    question.rows(sql, vec![Box::new(before), Box::new(rows(limit))], read).await
}
