//! All groups of the queue, for its page.

use super::super::attr;
use super::super::groups;
use super::super::limited::Limited;
use super::super::open::Options;
use super::super::runs::Runs;
use super::answer::{VIEWS, payload_start, rows, single};
use super::bumped;
use orchestrator_queue_rules::{
    listing::{GROUPS_MAX, GroupState, LISTING_BYTES_MAX, ListedGroup, Listing},
    storage::{GroupKey, LogRow, Section, is_expired},
};
use orchestrator_queue_store::questions;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// A ready group with its state.
type Ready = (GroupKey, Section, GroupState);

/// Up to 200,000 groups. Reads all their rows.
pub(super) fn listing(conn: &Connection, options: &Options, now: i64) -> rusqlite::Result<Listing> {
    let hold_secs = options.hold_secs;
    let limited = Limited::load(conn, &options.limits)?;
    let mut reader = Reader::new(conn, now, hold_secs)?;
    let bumped = bumped::eligible(conn, &limited, now, hold_secs)?;
    let first: Vec<_> =
        bumped.into_iter().map(|(key, section)| (key, section, GroupState::Waiting)).collect();
    let (mut waiting, blocked) = ready_groups(conn, &limited, now, hold_secs)?;
    waiting.retain(|(key, ..)| !first.iter().any(|(bumped, ..)| bumped == key));
    for (key, section, state) in first.into_iter().chain(waiting).chain(blocked) {
        if !reader.add_ready(key, section, state)? {
            break;
        }
    }
    reader.add_handed_out()?;
    Ok(Listing {
        at: now,
        paused: false,
        counts: single(conn, &questions::counts())?,
        pace: single(conn, &questions::pace(now))?,
        fetchers: reader.fetchers,
        groups: reader.groups,
        is_cut: reader.is_cut,
    })
}

/// Returns the groups that can be handed out in their order, and those that wait for the end of a hold or for
/// a limit.
fn ready_groups(
    conn: &Connection,
    limited: &Limited,
    now: i64,
    hold_secs: i64,
) -> rusqlite::Result<(Vec<Ready>, Vec<Ready>)> {
    let (runs, mut waiting, mut blocked) = (Runs::load(conn)?, Vec::new(), Vec::new());
    let mut statement = conn.prepare_cached(
        "SELECT started_key, jitter_key, attr_path FROM orchestrator_ready
         WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4
         ORDER BY started_key, jitter_key, attr_path LIMIT ?5",
    )?;
    for (section, _) in groups::sections(conn)? {
        if runs.is_deleted(section.fetcher_id, section.run_started) {
            continue;
        }
        let is_full = limited.is_full(section.class, now, hold_secs);
        let limit = rows(GROUPS_MAX + 1);
        let mut found = statement.query(params![
            section.fetcher_id,
            section.run_started,
            section.class,
            section.held,
            limit
        ])?;
        while let Some(row) = found.next()? {
            let key = groups::key(row, section.fetcher_id)?;
            let is_held =
                section.held && key.last_started.is_some_and(|started| !is_expired(started, now, hold_secs));
            match (is_held, is_full) {
                (true, _) => blocked.push((key, section, GroupState::Held)),
                (false, true) => blocked.push((key, section, GroupState::Limited)),
                (false, false) => waiting.push((key, section, GroupState::Waiting)),
            }
        }
        // One more than is listed, so that the reader notices that there are more.
        for groups in [&mut waiting, &mut blocked] {
            groups.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
            groups.truncate(GROUPS_MAX + 1);
        }
    }
    Ok((waiting, blocked))
}

/// Collects groups with the last results of their attribute paths.
struct Reader<'a> {
    conn: &'a Connection,
    now: i64,
    hold_secs: i64,
    fetchers: Vec<String>,
    /// Indexes of `fetchers`.
    by_id: HashMap<i64, usize>,
    attempts: HashMap<String, u64>,
    groups: Vec<ListedGroup>,
    bytes: usize,
    is_cut: bool,
}

impl<'a> Reader<'a> {
    fn new(conn: &'a Connection, now: i64, hold_secs: i64) -> rusqlite::Result<Self> {
        let mut reader = Self {
            conn,
            now,
            hold_secs,
            fetchers: Vec::new(),
            by_id: HashMap::new(),
            attempts: HashMap::new(),
            groups: Vec::new(),
            bytes: 0,
            is_cut: false,
        };
        let mut statement = conn.prepare_cached("SELECT fetcher_id, name FROM fetchers ORDER BY name")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            reader.by_id.insert(row.get(0)?, reader.fetchers.len());
            reader.fetchers.push(row.get(1)?);
        }
        let mut statement = conn.prepare_cached("SELECT attr_path FROM orchestrator_attempt")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            match reader.attempts.get_mut(row.get_ref(0)?.as_str()?) {
                Some(count) => *count += 1,
                None => drop(reader.attempts.insert(row.get(0)?, 1)),
            }
        }
        Ok(reader)
    }

    /// Adds a ready group. Returns false if there is no room.
    fn add_ready(&mut self, key: GroupKey, section: Section, state: GroupState) -> rusqlite::Result<bool> {
        let rowid = self
            .conn
            .prepare_cached(
                "SELECT rowid FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
            )?
            .query_row(params![section.run_started, section.fetcher_id, key.attr_path], |row| row.get(0))
            .optional()?;
        let Some(rowid) = rowid else { return Ok(true) };
        let last = attr::load_log(self.conn, &key.attr_path)?;
        let position = (state == GroupState::Waiting).then_some(1 + self.groups.len() as u64);
        self.add(key.attr_path, section.fetcher_id, rowid, (state, position), last)
    }

    /// Adds the groups that were handed out, the latest ones first.
    fn add_handed_out(&mut self) -> rusqlite::Result<()> {
        let conn = self.conn;
        let mut statement = conn.prepare_cached(&format!(
            "{} SELECT q.attr_path, q.fetcher_id, q.id FROM newest AS q
             WHERE q.is_dequeued <> 0 ORDER BY q.last_started DESC",
            questions::with_views(VIEWS, "newest")
        ))?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let attr_path: String = row.get(0)?;
            let last = attr::load_log(conn, &attr_path)?;
            let state = match last {
                Some(LogRow { started, finished: None, .. })
                    if is_expired(started, self.now, self.hold_secs) =>
                {
                    GroupState::Unanswered
                }
                Some(LogRow { finished: None, .. }) => GroupState::Running,
                _ => GroupState::Ended,
            };
            if !self.add(attr_path, row.get(1)?, row.get(2)?, (state, None), last)? {
                break;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        attr_path: String,
        fetcher_id: i64,
        rowid: i64,
        (state, position): (GroupState, Option<u64>),
        last: Option<LogRow>,
    ) -> rusqlite::Result<bool> {
        let Some(fetcher) = self.by_id.get(&fetcher_id).copied() else { return Ok(true) };
        let payload = payload_start(self.conn, rowid)?;
        self.bytes += attr_path.len() + payload.len();
        if self.groups.len() == GROUPS_MAX || self.bytes > LISTING_BYTES_MAX {
            self.is_cut = true;
            return Ok(false);
        }
        let kept = self.attempts.get(&attr_path).copied().unwrap_or(0);
        // Another program's hand-out is in the log only.
        let attempts = kept.max(u64::from(last.is_some()));
        self.groups.push(ListedGroup { attr_path, fetcher, payload, state, position, last, attempts });
        Ok(true)
    }
}
