//! Question about waiting jobs that were not tried for long.

use super::question::{Question, rows};
use super::sql::{NEWEST, class, within};
use crate::session::get;
use orchestrator_queue_rules::storage::{RunId, StaleGroup, StorageError};

pub(super) async fn stale(
    question: &mut Question<'_>,
    before: i64,
    limit: usize,
) -> Result<Vec<StaleGroup>, StorageError> {
    let ordered = format!(
        include_str!("../sql/inspect/stale_groups.sql"),
        newest = NEWEST,
        class = class("g.attr_path", "f.name")
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
