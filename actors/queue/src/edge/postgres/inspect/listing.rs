//! All groups of the queue, for its page.

use super::question::{Question, count};
use super::{
    counts,
    sql::{BUMPED, NEVER, NEWEST, PLACES, class},
};
use crate::edge::postgres::session::get;
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
    let class = class("g.attr_path", "f.name");
    let [waiting, held, limited, running, ended, unanswered] = [
        GroupState::Waiting,
        GroupState::Held,
        GroupState::Limited,
        GroupState::Running,
        GroupState::Ended,
        GroupState::Unanswered,
    ]
    .map(|state| state as i32);
    // The first group that does not fit is read, too.
    let sql = format!(
        "WITH {PLACES}, {BUMPED}, listed AS (
             SELECT g.attr_path, g.fetcher_id, g.payload_id, g.order_jitter, g.is_dequeued, f.index, log.started, log.finished,
                 log.exit_code, CASE
                     WHEN g.is_dequeued AND log.started < $1 AND log.finished IS NULL THEN {unanswered}
                     WHEN g.is_dequeued AND log.started IS NOT NULL AND log.finished IS NULL THEN {running}
                     WHEN g.is_dequeued THEN {ended}
                     WHEN h.attr_path IS NOT NULL THEN {held}
                     WHEN NOT EXISTS (SELECT 1 FROM places WHERE places = 0) THEN {waiting}
                     WHEN {class} IN (SELECT p.class FROM places AS p WHERE p.places > 0) THEN {waiting}
                     ELSE {limited}
                 END AS state
             FROM {NEWEST} AS g
                 JOIN (SELECT fetcher_id, name, dense_rank() OVER (ORDER BY name) - 1 AS index FROM fetcher) AS f USING (fetcher_id)
                 LEFT JOIN log ON log.attr_path = g.attr_path
                 LEFT JOIN in_flight AS h ON h.attr_path = g.attr_path AND h.is_held AND h.started >= $1
         ), ordered AS (
             SELECT g.*, left(p.payload, 500) AS payload
             FROM listed AS g JOIN payload AS p USING (payload_id)
                 LEFT JOIN bumped AS b ON b.attr_path = g.attr_path AND b.fetcher_id = g.fetcher_id
             ORDER BY g.is_dequeued, g.state <> {waiting}, b.place NULLS LAST,
                 CASE WHEN g.is_dequeued THEN -g.started ELSE coalesce(g.started, {NEVER}) END, g.order_jitter, g.attr_path,
                 g.fetcher_id
             LIMIT $2
         ), sized AS (
             SELECT o.*, row_number() OVER w AS n, sum(octet_length(attr_path) + octet_length(payload)) OVER w AS bytes
             FROM ordered AS o WINDOW w AS (ROWS UNBOUNDED PRECEDING)
         )
         SELECT s.attr_path, s.index, s.payload, s.state, s.started, s.finished, s.exit_code,
             greatest(a.kept, (s.started IS NOT NULL)::integer), s.bytes
         FROM sized AS s LEFT JOIN (SELECT attr_path, count(*) AS kept FROM attempt GROUP BY attr_path) AS a USING (attr_path)
         WHERE s.bytes - octet_length(s.attr_path) - octet_length(s.payload) <= {LISTING_BYTES_MAX}
         ORDER BY s.n"
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
