//! Questions about the jobs that are next.

use std::collections::HashMap;

use jiff::Timestamp;
use orchestrator_queue_rules::storage::{
    ANSWER_BYTES_MAX, HeldJobs, NextJobs, PAYLOAD_CHARS_MAX, Pattern, Peeked, RunId, StorageError, Waiting,
};

use super::question::{Question, rows};
use super::sql::{BUMPED, OPEN_SLOTS};
use crate::session::get;

pub(super) const FREE: &str = include_str!("../sql/inspect/free_groups.sql");

pub(super) async fn peek(
    question: &mut Question<'_>,
    pattern: Option<&Pattern>,
    now: i64,
    limit: usize,
) -> Result<Vec<Peeked>, StorageError> {
    let sql = format!(
        include_str!("../sql/inspect/peek.sql"),
        open_slots = OPEN_SLOTS,
        bumped = BUMPED,
        free = FREE,
        bytes_max = ANSWER_BYTES_MAX,
        payload_chars = PAYLOAD_CHARS_MAX
    );
    let (since, pattern) = (question.held_since(now), pattern.map(|pattern| pattern.as_str().to_owned()));
    let next = question.rows(sql, vec![Box::new(since), Box::new(rows(limit)), Box::new(pattern)], |row| {
        let run = RunId { fetcher: get(row, 4)?, started: get(row, 5)? };
        let job = Peeked { attr_path: get(row, 2)?, payload: get(row, 3)?, run, last_started: get(row, 6)? };
        Ok((get::<i16>(row, 0)?, get::<i64>(row, 1)?, job))
    });
    let (mut jobs, mut begun) = (NextJobs::new(limit), HashMap::<i16, i64>::new());
    for (class, slots, job) in next.await? {
        if jobs.is_full() {
            break;
        }
        let begun = begun.entry(class).or_default();
        if !jobs.holds(&job.attr_path) && *begun < slots {
            *begun += 1;
            jobs.push(job);
        }
    }
    Ok(jobs.jobs)
}

pub(super) async fn waiting(question: &mut Question<'_>, now: i64) -> Result<Waiting, StorageError> {
    let since = question.held_since(now);
    let sql = format!(
        "WITH {OPEN_SLOTS}, {FREE} SELECT slots > 0, class, attr_path FROM free
         ORDER BY slots > 0 DESC, started_key, order_jitter, attr_path LIMIT 1"
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
        include_str!("../sql/inspect/held_groups.sql"),
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
