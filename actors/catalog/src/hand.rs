//! The rows that a rule has claimed and that are not settled: pure book-keeping.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    handling::{Row, Task},
    rule::{Ending, Settlement},
    state_change::{body_of, key, rows},
};

/// A claimed row.
#[derive(Debug, Clone)]
pub struct Held {
    /// The row before the claim.
    pub row: Row,
    /// What the claim wrote.
    pub claimed: Row,
    /// The claim's token.
    pub token: Rc<str>,
    /// When its lease ends, by what was known before it was written; None: it has none.
    pub until: Option<Instant>,
    /// Which attempt this is.
    pub attempt: Option<u32>,
}

/// What is being done with it.
#[derive(Debug, Clone)]
enum Stage {
    Waiting,
    Working,
    Ended { ending: Ending, settlement: Settlement, repeated: bool },
}

/// Claims that are settled by one write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Which.
    pub ids: Vec<u64>,
    /// Where it is written.
    pub path: String,
    /// What is written.
    pub body: Bytes,
}

/// All claimed rows of a rule, in the order of their claims.
#[derive(Debug, Default)]
pub struct Hand {
    rows: BTreeMap<u64, (Held, Stage)>,
    /// What tells them apart in the table.
    keys: HashSet<String>,
    waiting: VecDeque<u64>,
    next: u64,
    working: usize,
}

impl Hand {
    /// Takes a row up; false if it is there already.
    pub fn take(&mut self, key: String, held: Held) -> bool {
        if !self.keys.insert(key) {
            return false;
        }
        self.rows.insert(self.next, (held, Stage::Waiting));
        self.waiting.push_back(self.next);
        self.next += 1;
        true
    }

    /// Is the row with this key there?
    pub fn holds(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// All keys that are there.
    pub fn keys(&self) -> &HashSet<String> {
        &self.keys
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many are worked on.
    pub fn working(&self) -> usize {
        self.working
    }

    /// One of them.
    pub fn get(&self, id: u64) -> Option<&Held> {
        self.rows.get(&id).map(|(held, _)| held)
    }

    /// The next one to be worked on.
    pub fn start(&mut self, rule: &str) -> Option<(u64, Task)> {
        let id = loop {
            let id = self.waiting.pop_front()?;
            // It may have been lost or given back meanwhile.
            if matches!(self.rows.get(&id), Some((_, Stage::Waiting))) {
                break id;
            }
        };
        let (held, stage) = self.rows.get_mut(&id)?;
        *stage = Stage::Working;
        self.working += 1;
        let token = Some(held.token.to_string()).filter(|token| !token.is_empty());
        let task = Task { rule: rule.to_owned(), row: held.row.clone(), token, attempt: held.attempt };
        Some((id, task))
    }

    /// It ended: what has to be written for it waits, if anything has to. It is gone otherwise.
    pub fn end(&mut self, id: u64, key: &str, ending: Ending, settlement: Option<Settlement>) {
        let Some(settlement) = settlement else { return self.forget(id, key) };
        let Some((_, stage)) = self.rows.get_mut(&id) else { return };
        if matches!(stage, Stage::Working) {
            self.working -= 1;
        }
        *stage = Stage::Ended { ending, settlement, repeated: false };
    }

    /// It is settled, or lost.
    pub fn forget(&mut self, id: u64, key: &str) {
        if let Some((_, stage)) = self.rows.remove(&id) {
            self.keys.remove(key);
            if matches!(stage, Stage::Working) {
                self.working -= 1;
            }
        }
    }

    /// How it ended, if it did.
    pub fn ending(&self, id: u64) -> Option<Ending> {
        match &self.rows.get(&id)?.1 {
            Stage::Ended { ending, .. } => Some(*ending),
            _ => None,
        }
    }

    /// What waits to be written for it, and whether that was tried before without a known outcome.
    pub fn settlement(&self, id: u64) -> Option<(&Settlement, bool)> {
        match &self.rows.get(&id)?.1 {
            Stage::Ended { settlement, repeated, .. } => Some((settlement, *repeated)),
            _ => None,
        }
    }

    /// It is not known whether the write was done: it will be tried again, and looked at if the server then tells nothing of it.
    pub fn repeat(&mut self, ids: &[u64]) {
        for id in ids {
            if let Some((_, Stage::Ended { repeated, .. })) = self.rows.get_mut(id) {
                *repeated = true;
            }
        }
    }

    /// Those that can be settled with the oldest one, at the most `max`.
    pub fn batch(&self, max: usize) -> Option<Batch> {
        let mut ended = self.rows.iter().filter_map(|(id, (_, stage))| match stage {
            Stage::Ended { settlement, .. } => Some((*id, settlement)),
            _ => None,
        });
        let (first, oldest) = ended.next()?;
        let like = ended.filter(|(_, settlement)| settlement.path == oldest.path);
        let (ids, updates): (Vec<_>, Vec<_>) = std::iter::once((first, oldest))
            .chain(like)
            .take(max.max(1))
            .map(|(id, settlement)| (id, &settlement.update))
            .unzip();
        Some(Batch { ids, path: oldest.path.clone(), body: body_of(&updates) })
    }

    /// Those whose lease has to be renewed by `now`: a third of it is over.
    pub fn renewable(&self, now: Instant, span: Duration, max: usize) -> Vec<u64> {
        let due = |held: &Held| held.until.is_some_and(|until| until <= now + span * 2 / 3);
        let live =
            self.rows.iter().filter(|(_, (held, stage))| !matches!(stage, Stage::Ended { .. }) && due(held));
        live.map(|(id, _)| *id).take(max).collect()
    }

    /// When the next lease has to be renewed.
    pub fn next_renewal(&self, span: Duration) -> Option<Instant> {
        self.leases().min().and_then(|until| until.checked_sub(span * 2 / 3))
    }

    /// The lease is longer.
    pub fn renewed(&mut self, id: u64, until: Instant) {
        if let Some((held, _)) = self.rows.get_mut(&id) {
            held.until = Some(until);
        }
    }

    /// When the first lease ends of those that are not settled.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.leases().min()
    }

    fn leases(&self) -> impl Iterator<Item = Instant> {
        let live = self.rows.values().filter(|(_, stage)| !matches!(stage, Stage::Ended { .. }));
        live.filter_map(|(held, _)| held.until)
    }

    /// Those whose lease has ended: somebody else may have them.
    pub fn expired(&self, now: Instant) -> Vec<u64> {
        let over = |held: &Held| held.until.is_some_and(|until| until <= now);
        let live =
            self.rows.iter().filter(|(_, (held, stage))| !matches!(stage, Stage::Ended { .. }) && over(held));
        live.map(|(id, _)| *id).collect()
    }

    /// Those that wait to be worked on; with `working`, also those that are worked on.
    pub fn unfinished(&self, working: bool) -> Vec<u64> {
        let is = |stage: &Stage| match stage {
            Stage::Waiting => true,
            Stage::Working => working,
            Stage::Ended { .. } => false,
        };
        self.rows.iter().filter(|(_, (_, stage))| is(stage)).map(|(id, _)| *id).collect()
    }
}

/// Which of `updates` the server tells of in its answer: all names that both have must agree, key by key.
///
/// # Errors
/// The answer is no array of rows.
pub fn told<'a>(
    updates: impl Iterator<Item = (u64, &'a Row)>,
    answer: &[u8],
    names: &[String],
) -> Result<(Vec<u64>, Vec<u64>), String> {
    let rows: HashSet<_> = rows(answer)?.iter().map(|row| key(row, names)).collect();
    let (told, untold): (Vec<_>, Vec<_>) =
        updates.partition(|(_, update)| rows.contains(&key(update, names)));
    let ids = |list: Vec<(u64, &Row)>| list.into_iter().map(|(id, _)| id).collect();
    Ok((ids(told), ids(untold)))
}
