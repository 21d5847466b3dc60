//! Jobs that wait while nobody works at any instance.

use orchestrator_queue_rules::{
    storage::{HeldJobs, StorageError},
    unserved::{LogTimes, Unserved},
};
use orchestrator_queue_store::LOG_TIMES;

use super::{
    peek::FREE,
    question::{Question, count},
    sql::OPEN_SLOTS,
};
use crate::{
    server_session::Session,
    session::{get, single},
};

/// Holds or releases a shared lock of this session, which tells others that workers of its instance have
/// asked a short time ago. Returns whether another session holds it. The lock ends with the session.
pub(super) async fn share_presence(session: &mut Session, is_present: bool) -> Result<bool, StorageError> {
    let sql = include_str!("../sql/inspect/share_presence.sql");
    let rows = session.query("looking for workers", sql, vec![Box::new(is_present)]).await?;
    single(&rows)
}

pub(super) async fn unserved(
    question: &mut Question<'_>,
    now: i64,
    last_request: Option<i64>,
) -> Result<Option<Unserved>, StorageError> {
    let times = question.row(LOG_TIMES, vec![Box::new(LogTimes::day_before(now))], |row| {
        Ok(LogTimes {
            in_flight: count(row, 0)?,
            newest_in_flight: get(row, 1)?,
            longest: get(row, 2)?,
            last_handout: get(row, 3)?,
            last_done: get(row, 4)?,
        })
    });
    let times = times.await?;
    if times.shows_work(now, question.settings.hold_secs) {
        return Ok(None);
    }
    let sql =
        format!("WITH {OPEN_SLOTS}, {FREE} SELECT count(*), count(*) FILTER (WHERE slots > 0) FROM free");
    let (since, most) = (question.held_since(now), HeldJobs::COUNTED_MAX.cast_signed());
    let counted = question.row(sql, vec![Box::new(since), Box::new(most), Box::new(None::<String>)], |row| {
        Ok((count(row, 0)?.min(HeldJobs::COUNTED_MAX), count(row, 1)?.min(HeldJobs::COUNTED_MAX)))
    });
    let (jobs, free) = counted.await?;
    Ok(Some(Unserved { jobs, free, in_flight: times.in_flight, last_request }))
}
