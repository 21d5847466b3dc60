//! Claimed rows of a rule that are not yet settled. Pure.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use orchestrator_catalog_rules::{
    cell::Cell,
    outcome_kind::OutcomeKind,
    path::keys_of,
    rows::{Row, body_of, key, rows},
    rule::Settlement,
};
use tokio::time::Instant;

use crate::{
    handler::Task,
    row_question::{HeldRow, RowStage},
};

#[derive(Debug, Clone)]
pub(crate) struct ClaimedRow {
    /// Row as it was before the claim.
    pub row: Row,
    /// Update that claimed it.
    pub claimed: Row,
    /// Token of the claim; empty without a token column.
    pub token: Rc<str>,
    /// Token of the claim before, whose lease ended.
    pub former_token: Option<String>,
    /// End of the lease, measured from before the claim was sent; None: no lease.
    pub until: Option<Instant>,
    /// Number of this attempt, from 1; None if attempts are not counted.
    pub attempt: Option<u32>,
    /// Time at which the response to the claim arrived.
    pub claimed_at: Timestamp,
}

/// Progress of a claimed row.
#[derive(Debug, Clone)]
enum Stage {
    Pending,
    Running,
    Settling { outcome: OutcomeKind, settlement: Settlement, written: Written },
}

/// Knowledge about the writes of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// No write had an unknown outcome.
    No,
    /// The last write had an unknown outcome: the row is read before the next one.
    Unknown,
    /// The row was read since, and is not settled: the write is repeated.
    NotYet,
    /// The server did not return the row of a repeated write: the row is read again.
    Missing,
}

/// Settlements or renewals that are written by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub ids: Vec<u64>,
    /// Path of the write.
    pub path: String,
    /// Body of the write.
    pub body: Bytes,
    /// Key of each update, by the columns of the path.
    keys: Vec<String>,
}

impl Batch {
    /// Takes the first `max` writes that have the path of the first one; None without any.
    pub(crate) fn new<'a>(
        mut writes: impl Iterator<Item = (u64, &'a Settlement)>,
        max: usize,
    ) -> Option<Self> {
        let first = writes.next()?;
        let path = &first.1.path;
        let like = writes.filter(|(_, write)| write.path == *path);
        let (ids, updates): (Vec<_>, Vec<_>) = std::iter::once(first)
            .chain(like)
            .take(max.max(1))
            .map(|(id, write)| (id, &write.update))
            .unzip();
        let names = keys_of(path);
        let keys = updates.iter().map(|update| key(update, &names)).collect();
        Some(Self { ids, path: path.clone(), body: body_of(&updates), keys })
    }

    /// Splits the rows into those that the response repeats and those that it does not.
    ///
    /// # Errors
    /// The response is not a JSON array of objects.
    pub(crate) fn split_by_response(&self, answer: &[u8]) -> Result<(Vec<u64>, Vec<u64>), String> {
        let names = keys_of(&self.path);
        let returned: HashSet<_> = rows(answer)?.iter().map(|row| key(row, &names)).collect();
        let rows = self.ids.iter().zip(&self.keys);
        let (written, missing): (Vec<_>, Vec<_>) = rows.partition(|(_, key)| returned.contains(*key));
        let ids = |list: Vec<(&u64, &String)>| list.into_iter().map(|(id, _)| *id).collect();
        Ok((ids(written), ids(missing)))
    }
}

/// Claimed rows of a rule, by id in the order of their claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimedRows {
    rows: BTreeMap<u64, (ClaimedRow, Stage)>,
    /// Keys of the rows in the table.
    keys: HashSet<String>,
    waiting: VecDeque<u64>,
    next: u64,
    working: usize,
}

impl ClaimedRows {
    /// Adds a row; returns false if its key is present already.
    pub(crate) fn insert(&mut self, key: String, held: ClaimedRow) -> bool {
        if !self.keys.insert(key) {
            return false;
        }
        self.rows.insert(self.next, (held, Stage::Pending));
        self.waiting.push_back(self.next);
        self.next += 1;
        true
    }

    pub(crate) fn keys(&self) -> &HashSet<String> {
        &self.keys
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn oldest_claim(&self) -> Option<Timestamp> {
        self.rows.first_key_value().map(|(_, (held, _))| held.claimed_at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Finds a row. `ms` gives the wall clock of a time, in milliseconds since 1970.
    pub(crate) fn held(
        &self,
        is_it: impl Fn(&ClaimedRow) -> bool,
        ms: impl Fn(Instant) -> u64,
    ) -> Option<HeldRow> {
        let (held, stage) = self.rows.values().find(|(held, _)| is_it(held))?;
        Some(HeldRow {
            stage: match stage {
                Stage::Pending => RowStage::Pending,
                Stage::Running => RowStage::Running,
                Stage::Settling { outcome, written, .. } => {
                    let is_unknown = matches!(written, Written::Unknown | Written::Missing);
                    RowStage::Settling { outcome: *outcome, is_unknown }
                }
            },
            row: held.row.clone(),
            token: held.token.to_string(),
            attempt: held.attempt,
            claimed_at: u64::try_from(held.claimed_at.as_millisecond()).unwrap_or(0),
            lease_until: held.until.map(ms),
        })
    }

    /// Rows whose handlers run, those claimed first first.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ClaimedRow> {
        self.rows.values().filter(|(_, stage)| matches!(stage, Stage::Running)).map(|(held, _)| held)
    }

    /// Returns the number of rows whose handlers run.
    pub(crate) fn working(&self) -> usize {
        self.working
    }

    pub(crate) fn get(&self, id: u64) -> Option<&ClaimedRow> {
        self.rows.get(&id).map(|(held, _)| held)
    }

    /// Marks the oldest pending row as running and returns its task.
    pub(crate) fn start(&mut self, rule: &str) -> Option<(u64, Task)> {
        let id = loop {
            let id = self.waiting.pop_front()?;
            // The row may have been lost or released since it was queued.
            if matches!(self.rows.get(&id), Some((_, Stage::Pending))) {
                break id;
            }
        };
        let (held, stage) = self.rows.get_mut(&id)?;
        *stage = Stage::Running;
        self.working += 1;
        let token = Some(held.token.to_string()).filter(|token| !token.is_empty());
        let ClaimedRow { row, former_token, attempt, .. } = held;
        let (row, former_token) = (row.clone(), former_token.clone());
        let task = Task { rule: rule.to_owned(), row, token, former_token, attempt: *attempt };
        Some((id, task))
    }

    /// Stores the settlement of a row, to be written later. Without a settlement the row is
    /// removed.
    pub(crate) fn set_outcome(
        &mut self,
        id: u64,
        key: &str,
        outcome: OutcomeKind,
        settlement: Option<Settlement>,
    ) {
        let Some(settlement) = settlement else { return self.remove(id, key) };
        let Some((_, stage)) = self.rows.get_mut(&id) else { return };
        if matches!(stage, Stage::Running) {
            self.working -= 1;
        }
        *stage = Stage::Settling { outcome, settlement, written: Written::No };
    }

    /// Removes a row that is settled or lost.
    pub(crate) fn remove(&mut self, id: u64, key: &str) {
        if let Some((_, stage)) = self.rows.remove(&id) {
            self.keys.remove(key);
            if matches!(stage, Stage::Running) {
                self.working -= 1;
            }
        }
    }

    /// None until the handler of the row has ended.
    pub(crate) fn outcome(&self, id: u64) -> Option<OutcomeKind> {
        match &self.rows.get(&id)?.1 {
            Stage::Settling { outcome, .. } => Some(*outcome),
            _ => None,
        }
    }

    pub(crate) fn settlement(&self, id: u64) -> Option<&Settlement> {
        match &self.rows.get(&id)?.1 {
            Stage::Settling { settlement, .. } => Some(settlement),
            _ => None,
        }
    }

    /// Records that the write of these settlements had an unknown outcome.
    pub(crate) fn outcome_unknown(&mut self, ids: &[u64]) {
        for id in ids {
            if let Some((_, Stage::Settling { written, .. })) = self.rows.get_mut(id) {
                *written = Written::Unknown;
            }
        }
    }

    /// Records that the server did not return the row of a write. Returns true if an earlier write may
    /// have settled it, so that it has to be read.
    pub(crate) fn missing(&mut self, id: u64) -> bool {
        match self.rows.get_mut(&id) {
            Some((_, Stage::Settling { written: written @ Written::NotYet, .. })) => {
                *written = Written::Missing;
                true
            }
            _ => false,
        }
    }

    /// Rows that have to be read before their settlement is written again, oldest first.
    pub(crate) fn to_read(&self) -> impl Iterator<Item = (u64, &ClaimedRow)> {
        let unclear = |stage: &Stage| {
            matches!(stage, Stage::Settling { written: Written::Unknown | Written::Missing, .. })
        };
        self.rows.iter().filter(move |(_, (_, stage))| unclear(stage)).map(|(id, (held, _))| (*id, held))
    }

    /// Repeats the write of a row that was read and is not settled, provided that the row stays as it is:
    /// `last_change` is that of the read, if the table has one. Returns false if the row has changed since
    /// an earlier such read: a former write may have arrived, and may have been changed by others.
    pub(crate) fn repeat(&mut self, id: u64, last_change: Option<&Cell>) -> bool {
        let Some((_, Stage::Settling { settlement, written, .. })) = self.rows.get_mut(&id) else {
            return false;
        };
        let changed = settlement.last_change().is_some_and(|before| Some(before) != last_change);
        if *written == Written::Missing || changed {
            return false;
        }
        if let Some(last_change) = last_change {
            settlement.require_unchanged(last_change);
        }
        *written = Written::NotYet;
        true
    }

    /// Returns up to `max` settlements that can be written together with the oldest one.
    pub(crate) fn batch(&self, max: usize) -> Option<Batch> {
        let ended = self.rows.iter().filter_map(|(id, (_, stage))| match stage {
            Stage::Settling { settlement, written: Written::No | Written::NotYet, .. } => {
                Some((*id, settlement))
            }
            _ => None,
        });
        Batch::new(ended, max)
    }

    /// A lease is renewed once a third of `span` has passed.
    pub(crate) fn renewable(&self, now: Instant, span: Duration, max: usize) -> Vec<u64> {
        self.expired_by(now + span * 2 / 3).take(max).collect()
    }

    pub(crate) fn next_renewal(&self, span: Duration) -> Option<Instant> {
        self.next_expiry().and_then(|until| until.checked_sub(span * 2 / 3))
    }

    /// Records the new end of a lease.
    pub(crate) fn renewed(&mut self, id: u64, until: Instant) {
        if let Some((held, _)) = self.rows.get_mut(&id) {
            held.until = Some(until);
        }
    }

    /// Considers only rows without an outcome.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.live().map(|(_, until)| until).min()
    }

    /// Another agent may have claimed these rows.
    pub(crate) fn expired(&self, now: Instant) -> Vec<u64> {
        self.expired_by(now).collect()
    }

    /// Only rows without an outcome.
    fn expired_by(&self, at: Instant) -> impl Iterator<Item = u64> {
        self.live().filter(move |(_, until)| *until <= at).map(|(id, _)| id)
    }

    /// Rows without an outcome, with the end of their lease.
    fn live(&self) -> impl Iterator<Item = (u64, Instant)> {
        let live = self.rows.iter().filter(|(_, (_, stage))| !matches!(stage, Stage::Settling { .. }));
        live.filter_map(|(id, (held, _))| Some((*id, held.until?)))
    }

    /// Rows whose handler has not started; with `working`, also those whose handler runs.
    pub(crate) fn unfinished(&self, working: bool) -> Vec<u64> {
        let is = |stage: &Stage| match stage {
            Stage::Pending => true,
            Stage::Running => working,
            Stage::Settling { .. } => false,
        };
        self.rows.iter().filter(|(_, (_, stage))| is(stage)).map(|(id, _)| *id).collect()
    }
}
