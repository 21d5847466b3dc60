//! Questions about the jobs that are next.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use orchestrator_queue_rules::storage::{HeldJobs, Pattern, Peeked, RunId, StorageError, Waiting};

use super::question::{Question, rows};
use super::sql::{ANSWER_BYTES_MAX, BUMPED, PLACES, like};
use crate::edge::postgres::session::get;

/// Common table expression `free`: up to `$2` first groups of each class that are not held, of paths like
/// `$3`. Each path once in a class. Needs [`PLACES`].
///
/// Rows of `ready` may be outdated, but not those of groups that wait and are not held.
pub(super) const FREE: &str = "free AS (
    SELECT p.class, p.places, w.* FROM places AS p CROSS JOIN LATERAL (
        (SELECT r.started_key, g.order_jitter, g.attr_path, g.fetcher_id, g.run_started, g.payload_id
         FROM ready AS r CROSS JOIN LATERAL (
             SELECT * FROM ready_groups(ARRAY[r.attr_path]) AS g WHERE g.class = r.class ORDER BY g.fetcher_id LIMIT 1) AS g
         WHERE r.class = p.class AND ($3::text IS NULL OR r.attr_path LIKE $3)
             AND NOT EXISTS (SELECT 1 FROM in_flight AS h WHERE h.attr_path = r.attr_path AND h.is_held)
         ORDER BY r.started_key, r.order_jitter, r.attr_path LIMIT $2)
        UNION ALL
        (SELECT h.started, g.order_jitter, g.attr_path, g.fetcher_id, g.run_started, g.payload_id
         FROM in_flight AS h CROSS JOIN LATERAL (
             SELECT * FROM ready_groups(ARRAY[h.attr_path]) AS g WHERE g.class = p.class ORDER BY g.fetcher_id LIMIT 1) AS g
         WHERE CASE WHEN h.is_held THEN h.started END < $1 AND ($3::text IS NULL OR h.attr_path LIKE $3)
         ORDER BY CASE WHEN h.is_held THEN h.started END, g.order_jitter, g.attr_path LIMIT $2)) AS w)";

pub(super) async fn peek(
    question: &mut Question<'_>,
    pattern: Option<&Pattern>,
    now: i64,
    limit: usize,
) -> Result<Vec<Peeked>, StorageError> {
    let sql = format!(
        "WITH {PLACES}, {BUMPED}, {FREE}, next AS (
             SELECT place, class, 0 AS started_key, order_jitter, attr_path, fetcher_id, run_started, payload_id FROM bumped
             WHERE $3::text IS NULL OR attr_path LIKE $3
             UNION ALL
             SELECT NULL, class, started_key, order_jitter, attr_path, fetcher_id, run_started, payload_id
             FROM (SELECT f.*, sum(octet_length(f.attr_path)) OVER (
                       PARTITION BY f.class ORDER BY f.started_key, f.order_jitter, f.attr_path) AS bytes
                   FROM free AS f WHERE f.places > 0) AS f
             WHERE f.bytes <= {ANSWER_BYTES_MAX})
         SELECT n.class, p.places, n.attr_path, left(payload.payload, 500), f.name, n.run_started, log.started
         FROM next AS n JOIN places AS p USING (class) JOIN payload USING (payload_id) JOIN fetcher AS f USING (fetcher_id)
             LEFT JOIN log ON log.attr_path = n.attr_path
         ORDER BY n.place NULLS LAST, n.started_key, n.order_jitter, n.attr_path, n.fetcher_id"
    );
    let (since, like) = (question.held_since(now), like(pattern));
    let next = question.rows(sql, vec![Box::new(since), Box::new(rows(limit)), Box::new(like)], |row| {
        let run = RunId { fetcher: get(row, 4)?, started: get(row, 5)? };
        let job = Peeked { attr_path: get(row, 2)?, payload: get(row, 3)?, run, last_started: get(row, 6)? };
        Ok((get::<i16>(row, 0)?, get::<i64>(row, 1)?, job))
    });
    let (mut jobs, mut paths, mut bytes) = (Vec::new(), HashSet::new(), 0);
    let mut begun: HashMap<i16, i64> = HashMap::new();
    for (class, places, job) in next.await? {
        if jobs.len() == limit {
            break;
        }
        let begun = begun.entry(class).or_default();
        // The first job of a path holds the others.
        if paths.contains(&job.attr_path) || *begun == places {
            continue;
        }
        *begun += 1;
        paths.insert(job.attr_path.clone());
        bytes += job.attr_path.len() + job.payload.len() + job.run.fetcher.len();
        if bytes > ANSWER_BYTES_MAX {
            break;
        }
        jobs.push(job);
    }
    Ok(jobs)
}

pub(super) async fn waiting(question: &mut Question<'_>, now: i64) -> Result<Waiting, StorageError> {
    let since = question.held_since(now);
    let sql = format!(
        "WITH {PLACES}, {FREE} SELECT places > 0, class, attr_path FROM free
         ORDER BY places > 0 DESC, started_key, order_jitter, attr_path LIMIT 1"
    );
    let read = |row: &_| Ok((get::<bool>(row, 0)?, get::<i16>(row, 1)?, get::<String>(row, 2)?));
    let first = question.rows(sql, vec![Box::new(since), Box::new(1_i64), Box::new(None::<String>)], read);
    if let Some((is_open, class, attr_path)) = first.await?.pop() {
        let limit = u8::try_from(class).ok().and_then(|class| question.settings.limits.limit(class)).cloned();
        // Only limited classes are full.
        return Ok(match limit {
            Some(limit) if !is_open => Waiting::Limited { attr_path, limit },
            _ => Waiting::Ready,
        });
    }
    let held = question.rows(
        "WITH held AS MATERIALIZED (
             SELECT h.started, g.order_jitter, g.attr_path FROM in_flight AS h CROSS JOIN LATERAL ready_groups(ARRAY[h.attr_path]) AS g
             WHERE h.is_held ORDER BY CASE WHEN h.is_held THEN h.started END, g.order_jitter, g.attr_path LIMIT $1)
         SELECT attr_path, started, (SELECT count(*) FROM held) FROM held ORDER BY started, order_jitter, attr_path LIMIT 1",
        vec![Box::new(HeldJobs::COUNTED_MAX.cast_signed())],
        |row| Ok((get::<String>(row, 0)?, get::<i64>(row, 1)?, super::question::count(row, 2)?)),
    );
    let Some((attr_path, started, jobs)) = held.await?.pop() else { return Ok(Waiting::Nothing) };
    let until = utc(started.saturating_add(question.settings.hold_secs));
    Ok(Waiting::Held(HeldJobs { attr_path, started: utc(started), until, jobs }))
}

fn utc(unix_time: i64) -> String {
    Timestamp::from_second(unix_time)
        .map_or_else(|_| format!("{unix_time} s after 1970"), |time| time.to_string())
}
