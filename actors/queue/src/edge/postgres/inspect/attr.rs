//! Questions about one attribute path.

use orchestrator_edge::postgres::Params;
use orchestrator_queue_rules::storage::{AttrReport, ListedRow, RunId, StorageError, WaitingGroup};

use super::question::{Question, count};
use super::{
    attempts,
    sql::{BUMPED, NEVER, NEWEST, PLACES, class},
};
use crate::edge::postgres::session::get;

/// Maximum number of rows that list a path in an answer.
const LISTED_MAX: i64 = 100;

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
    let hold_secs = question.settings.hold_secs;
    Ok(AttrReport {
        listed: listed(question, attr_path).await?,
        waiting: waiting(question, attr_path, now).await?,
        in_flight: in_flight.map(|job| {
            let until = job.started.saturating_add(hold_secs);
            (job, until)
        }),
        attempts,
    })
}

/// Newest runs first.
async fn listed(question: &mut Question<'_>, attr_path: &str) -> Result<Vec<ListedRow>, StorageError> {
    let sql = "SELECT f.name, l.run_started, r.added, l.is_dequeued
         FROM listing AS l JOIN run AS r USING (fetcher_id, run_started) JOIN fetcher AS f USING (fetcher_id)
         WHERE l.attr_path = $1 AND NOT r.is_deleted ORDER BY l.run_started DESC, f.name LIMIT $2";
    let read = |row: &_| {
        let run = RunId { fetcher: get(row, 0)?, started: get(row, 1)? };
        Ok(ListedRow { run, added: get(row, 2)?, handed_out: get(row, 3)? })
    };
    question.rows(sql, vec![Box::new(attr_path), Box::new(LISTED_MAX)], read).await
}

/// Bumped groups come before all others.
async fn waiting(
    question: &mut Question<'_>,
    attr_path: &str,
    now: i64,
) -> Result<Vec<WaitingGroup>, StorageError> {
    let since = question.held_since(now);
    // All rows of a path have the same jitter.
    let sql = format!(
        "WITH {PLACES}, {BUMPED}, mine AS MATERIALIZED (
             SELECT g.*, p.places, coalesce(log.started, {NEVER}) AS started_key, EXISTS (
                 SELECT 1 FROM in_flight AS h WHERE h.attr_path = g.attr_path AND h.is_held AND h.started >= $1) AS is_held
             FROM ready_groups(ARRAY[$2]) AS g JOIN places AS p USING (class) LEFT JOIN log ON log.attr_path = g.attr_path)
         SELECT f.name, m.run_started, left(p.payload, 500), m.places = 0, m.is_held, m.started_key, m.order_jitter,
             (SELECT b.place FROM bumped AS b WHERE b.attr_path = m.attr_path AND b.fetcher_id = m.fetcher_id),
             (SELECT count(*) FROM mine AS o WHERE o.fetcher_id < m.fetcher_id AND o.places > 0)
                 + (SELECT count(*) FROM bumped AS b LEFT JOIN log ON log.attr_path = b.attr_path
                    WHERE (coalesce(log.started, {NEVER}), b.order_jitter, b.attr_path, b.fetcher_id)
                        > (m.started_key, m.order_jitter, m.attr_path, m.fetcher_id))
         FROM mine AS m JOIN fetcher AS f USING (fetcher_id) JOIN payload AS p USING (payload_id)
         ORDER BY m.fetcher_id"
    );
    let read = |row: &_| {
        let is_limited: bool = get(row, 3)?;
        let is_free = !is_limited && !get::<bool>(row, 4)?;
        let (key, bumped): ((i64, i32), Option<i64>) = ((get(row, 5)?, get(row, 6)?), get(row, 7)?);
        let group = WaitingGroup {
            run: RunId { fetcher: get(row, 0)?, started: get(row, 1)? },
            payload: get(row, 2)?,
            position: bumped.filter(|_| is_free).map(i64::unsigned_abs),
            is_limited,
        };
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
            group.position = Some(paths_before + position);
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Counts the groups of other paths before a path in the order without bumps. Reads all rows.
async fn groups_before(
    question: &mut Question<'_>,
    attr_path: &str,
    (started_key, order_jitter): (i64, i32),
    since: i64,
) -> Result<u64, StorageError> {
    let class = class("g.attr_path", "f.name");
    let sql = format!(
        "WITH {PLACES}
         SELECT count(*)
         FROM {NEWEST} AS g JOIN fetcher AS f USING (fetcher_id) LEFT JOIN log ON log.attr_path = g.attr_path
         WHERE NOT g.is_dequeued AND (coalesce(log.started, {NEVER}), g.order_jitter, g.attr_path) < ($2, $3, $4)
             AND NOT EXISTS (SELECT 1 FROM in_flight AS h WHERE h.attr_path = g.attr_path AND h.is_held AND h.started >= $1)
             AND (NOT EXISTS (SELECT 1 FROM places WHERE places = 0)
                  OR {class} <> ALL (ARRAY(SELECT p.class FROM places AS p WHERE p.places = 0)))"
    );
    let params: Params<'_> =
        vec![Box::new(since), Box::new(started_key), Box::new(order_jitter), Box::new(attr_path)];
    question.row(sql, params, |row| count(row, 0)).await
}
