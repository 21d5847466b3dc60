//! Totals for the metrics, and the instances.

use orchestrator_queue_rules::storage::{InstanceRow, Sample, StorageError};
use orchestrator_queue_store::questions::{self, WaitingSample};

use super::question::{Question, count};
use super::sql::with_newest;
use crate::session::get;

pub(super) async fn instances(question: &mut Question<'_>) -> Result<Vec<InstanceRow>, StorageError> {
    let sql = include_str!("../sql/inspect/instances.sql");
    let read = |row: &_| {
        Ok(InstanceRow {
            instance: get(row, 0)?,
            live: get(row, 1)?,
            lease_until: get(row, 2)?,
            host: get(row, 3)?,
            socket: get(row, 4)?,
            fetchers: count(row, 5)?,
            in_flight: count(row, 6)?,
        })
    };
    question.rows(sql, Vec::new(), read).await
}

/// Reads all rows, the log and the attempts of a day.
pub(super) async fn sample(question: &mut Question<'_>, now: i64) -> Result<Sample, StorageError> {
    let sql = format!("{} SELECT count(*), min(added) FROM newest WHERE NOT is_dequeued", with_newest());
    let read = |row: &_| Ok(WaitingSample { groups: count(row, 0)?, oldest: get(row, 1)? });
    let waiting = question.row(sql, Vec::new(), read).await?;
    let log = question.single(&questions::log_sample(now)).await?;
    let attempts = question.single(&questions::attempt_sample(now)).await?;
    let kept = Some(question.settings.attempts).filter(|kept| *kept > 0);
    Ok(questions::sample(now, waiting, &log, &attempts, kept))
}
