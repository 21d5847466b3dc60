//! Questions about one attribute path.

use orchestrator_edge::postgres::Params;
use orchestrator_queue_rules::storage::{
    AttrReport, PAYLOAD_CHARS_MAX, POSITION_MAX, RunId, StorageError, WaitingGroup,
};
use orchestrator_queue_store::questions;

use super::question::{Question, count};
use super::{
    attempts,
    sql::{BUMPED, NEVER, OPEN_SLOTS},
};
use crate::session::get;

pub(super) async fn attr(
    question: &mut Question<'_>,
    attr_path: &str,
    now: i64,
    limit: usize,
) -> Result<AttrReport, StorageError> {
    let mut attempts = attempts::of_attr(question, attr_path, limit.max(1)).await?;
    let mut in_flight = attempts.first().filter(|last| last.finished.is_none()).cloned();
    if let Some(job) = &mut in_flight {
        job.instance = attempts::instance_of(question, attr_path).await?;
    }
    attempts.truncate(limit);
    Ok(AttrReport {
        listed: question.answer(&questions::listed(attr_path)).await?,
        waiting: waiting(question, attr_path, now).await?,
        in_flight,
        hold_secs: question.settings.hold_secs,
        attempts,
    })
}

/// Bumped groups come before all others.
async fn waiting(
    question: &mut Question<'_>,
    attr_path: &str,
    now: i64,
) -> Result<Vec<WaitingGroup>, StorageError> {
    let since = question.held_since(now);
    let sql = format!(
        include_str!("../sql/inspect/waiting_groups.sql"),
        open_slots = OPEN_SLOTS,
        bumped = BUMPED,
        payload_chars = PAYLOAD_CHARS_MAX,
        never = NEVER
    );
    let limits = &question.settings.limits;
    let read = |row: &_| {
        let is_limited: bool = get(row, 3)?;
        let is_free = !is_limited && !get::<bool>(row, 4)?;
        let (key, bumped): ((i64, i32), Option<i64>) = ((get(row, 5)?, get(row, 6)?), get(row, 7)?);
        let group = WaitingGroup {
            run: RunId { fetcher: get(row, 0)?, started: get(row, 1)? },
            payload: get(row, 2)?,
            position: bumped.filter(|_| is_free).map(i64::unsigned_abs),
            full: None,
        };
        let class = limits.class(attr_path, Some(&group.run.fetcher));
        let group = WaitingGroup { full: limits.limit(class).filter(|_| is_limited).cloned(), ..group };
        Ok((group, key, is_free, 1 + count(row, 8)?))
    };
    let mine = question.rows(sql, vec![Box::new(since), Box::new(attr_path)], read).await?;
    let (mut groups, mut before) = (Vec::with_capacity(mine.len()), None);
    for (mut group, key, is_free, position) in mine {
        if is_free && group.position.is_none() {
            let paths_before = match before {
                Some(before) => before,
                None => *before.insert(groups_before(question, attr_path, key, since).await?),
            };
            group.position = Some((paths_before + position).min(POSITION_MAX + 1));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Counts the groups of other paths before a path in the order without bumps, up to [`POSITION_MAX`].
async fn groups_before(
    question: &mut Question<'_>,
    attr_path: &str,
    (started_key, order_jitter): (i64, i32),
    since: i64,
) -> Result<u64, StorageError> {
    let sql = format!(
        include_str!("../sql/inspect/groups_before.sql"),
        open_slots = OPEN_SLOTS,
        max = POSITION_MAX
    );
    let params: Params<'_> =
        vec![Box::new(since), Box::new(started_key), Box::new(order_jitter), Box::new(attr_path)];
    question.row(sql, params, |row| count(row, 0)).await
}
