//! All groups of the queue, for its page.

use super::question::{Question, count};
use super::{
    counts,
    sql::{BUMPED, NEVER, NEWEST, OPEN_SLOTS, class},
};
use crate::session::get;
use orchestrator_queue_rules::{
    listing::{GroupState, ListedGroup, Listing, Pace},
    storage::{LogRow, StorageError},
};

/// Maximum number of groups in a listing.
const GROUPS_MAX: usize = 200_000;
/// Maximum size of the texts in a listing, in bytes.
const LISTING_BYTES_MAX: usize = 64 << 20;
/// Time over which the pace of hand-outs is measured, in seconds.
const PACE_SECS: i64 = 6 * 3_600;

/// Reads all rows.
pub(super) async fn listing(question: &mut Question<'_>, now: i64) -> Result<Listing, StorageError> {
    let fetchers =
        question.rows("SELECT DISTINCT name FROM fetcher ORDER BY name", Vec::new(), |row| get(row, 0));
    let fetchers = fetchers.await?;
    let (groups, is_cut) = groups(question, now).await?;
    let counts = counts::counts(question).await?;
    Ok(Listing { at: now, paused: false, counts, pace: pace(question, now).await?, fetchers, groups, is_cut })
}

/// Groups that can be handed out in their order, then blocked ones, then those handed out, latest first. The
/// second value is true if there are more.
async fn groups(question: &mut Question<'_>, now: i64) -> Result<(Vec<ListedGroup>, bool), StorageError> {
    let [waiting, held, limited, running, ended, unanswered] = [
        GroupState::Waiting,
        GroupState::Held,
        GroupState::Limited,
        GroupState::Running,
        GroupState::Ended,
        GroupState::Unanswered,
    ]
    .map(|state| state as i32);
    let sql = format!(
        include_str!("../sql/inspect/listing.sql"),
        open_slots = OPEN_SLOTS,
        bumped = BUMPED,
        newest = NEWEST,
        never = NEVER,
        class = class("g.attr_path", "f.name"),
        bytes_max = LISTING_BYTES_MAX,
        waiting = waiting,
        held = held,
        limited = limited,
        running = running,
        ended = ended,
        unanswered = unanswered
    );
    let most = super::question::rows(GROUPS_MAX + 1);
    let since = question.held_since(now);
    let mut groups = question
        .rows(sql, vec![Box::new(since), Box::new(most)], |row| {
            let state = match get::<i32>(row, 3)? {
                state if state == waiting => GroupState::Waiting,
                state if state == held => GroupState::Held,
                state if state == limited => GroupState::Limited,
                state if state == running => GroupState::Running,
                state if state == ended => GroupState::Ended,
                _ => GroupState::Unanswered,
            };
            let log = |started| -> Result<_, StorageError> {
                Ok(LogRow { started, finished: get(row, 5)?, exit_code: get(row, 6)? })
            };
            let group = ListedGroup {
                attr_path: get(row, 0)?,
                fetcher: usize::try_from(get::<i64>(row, 1)?).unwrap_or_default(),
                payload: get(row, 2)?,
                state,
                position: None,
                last: get::<Option<i64>>(row, 4)?.map(log).transpose()?,
                attempts: count(row, 7)?,
            };
            Ok(group)
        })
        .await?;
    let bytes = |group: &ListedGroup| group.attr_path.len() + group.payload.len();
    let is_cut = groups.len() > GROUPS_MAX || groups.iter().map(bytes).sum::<usize>() > LISTING_BYTES_MAX;
    if is_cut {
        groups.pop();
    }
    for (group, position) in groups.iter_mut().zip(1..) {
        group.position = (group.state == GroupState::Waiting).then_some(position);
    }
    Ok((groups, is_cut))
}

/// Counts the hand-outs of the last hours: those with an attempt, and those that only the log knows.
async fn pace(question: &mut Question<'_>, now: i64) -> Result<Pace, StorageError> {
    let sql = "SELECT count(*), min(started) FROM (
             SELECT started, attr_path FROM log WHERE started BETWEEN $1 AND $2
             UNION SELECT started, attr_path FROM attempt WHERE started BETWEEN $1 AND $2) AS h";
    let from = now.saturating_sub(PACE_SECS);
    let read = |row: &_| {
        let first: Option<i64> = get(row, 1)?;
        Ok(Pace { handed_out: count(row, 0)?, secs: now.saturating_sub(first.unwrap_or(now)) })
    };
    question.row(sql, vec![Box::new(from), Box::new(now)], read).await
}
