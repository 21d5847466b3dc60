//! All groups of the queue, for its page.

use super::question::{Question, count};
use super::sql::{BUMPED, NEVER, OPEN_SLOTS, class, with_newest};
use crate::session::get;
use orchestrator_queue_rules::{
    listing::{GROUPS_MAX, GroupState, LISTING_BYTES_MAX, ListedGroup, Listing},
    storage::{LogRow, PAYLOAD_CHARS_MAX, StorageError},
};
use orchestrator_queue_store::questions;

/// Reads all rows.
pub(super) async fn listing(question: &mut Question<'_>, now: i64) -> Result<Listing, StorageError> {
    let fetchers =
        question.rows("SELECT DISTINCT name FROM fetcher ORDER BY name", Vec::new(), |row| get(row, 0));
    let fetchers = fetchers.await?;
    let (groups, is_cut) = groups(question, now).await?;
    let counts = question.single(&questions::counts()).await?;
    let pace = question.single(&questions::pace(now)).await?;
    Ok(Listing { at: now, paused: false, counts, pace, fetchers, groups, is_cut })
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
        newest = with_newest(),
        open_slots = OPEN_SLOTS,
        bumped = BUMPED,
        payload_chars = PAYLOAD_CHARS_MAX,
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
