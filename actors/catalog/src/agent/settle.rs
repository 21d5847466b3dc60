//! Ends claims: in batches, each row fenced by its claim.

use std::time::Duration;

use futures_util::{FutureExt, future::LocalBoxFuture};
use orchestrator_supervise::sanitize;
use tokio::time::Instant;

use super::{
    Agent,
    adopt::read,
    report::{Report, Settled},
};
use crate::{
    hand::{Batch, told},
    handling::{Handler, Row, Verdict},
    lane::{Purpose, Turn},
    rule::Ending,
    service::{Put, Reply, Service, Trouble},
    state_change::keys_of,
    status::Count,
    template::Meaning,
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// A handler has ended.
    pub(super) fn worked(&mut self, id: u64, verdict: Option<Verdict>, span: Duration) {
        self.cancels.remove(&id);
        // None: the row was lost meanwhile, and is gone.
        let Some(verdict) = verdict else { return };
        self.board.handled(span);
        // The last few count most.
        self.handling = Some(self.handling.map_or(span, |before| (before * 3 + span) / 4));
        match verdict {
            Verdict::Done(result) => self.end(id, Ending::Done, Some(&result), ""),
            Verdict::Later(error) => {
                tracing::info!(rule = self.rule.name, error = sanitize(&error), "a row is left for later");
                self.hold_back(id);
                self.end(id, Ending::Released, None, &error);
            }
            Verdict::Failed(error) => {
                self.board.count(Count::Failed, 1);
                let held = self.hand.get(id);
                let attempt = held.and_then(|held| held.attempt);
                let last = attempt.zip(self.rule.max_attempts).is_some_and(|(attempt, max)| attempt >= max);
                if last {
                    self.board.count(Count::Dead, 1);
                } else {
                    self.hold_back(id);
                }
                self.end(id, if last { Ending::Dead } else { Ending::Failed }, None, &error);
            }
            Verdict::Dead(error) => {
                self.board.count(Count::Failed, 1);
                self.board.count(Count::Dead, 1);
                self.end(id, Ending::Dead, None, &error);
            }
        }
    }

    /// The row is left alone for a while, the longer the more often it failed.
    fn hold_back(&mut self, id: u64) {
        let Some(held) = self.hand.get(id) else { return };
        let key = self.key_of(&held.row);
        self.left_alone.failed(&key, Instant::now(), fastrand::f64());
    }

    /// A row is done or dead. If it was claimed right after its last end, its end makes a candidate of it: it is left alone then.
    fn note_end(&mut self, key: &str, ending: Ending) {
        if !matches!(ending, Ending::Done | Ending::Dead) {
            return;
        }
        if self.left_alone.is_empty() {
            self.recurrence_told = false;
        }
        let repeats = self.left_alone.ended(key, Instant::now(), fastrand::f64());
        if repeats == 0 {
            return;
        }
        self.board.count(Count::Recurred, 1);
        if !std::mem::replace(&mut self.recurrence_told, true) {
            let (rule, table) = (&self.rule.name, sanitize(self.rule.table()));
            tracing::warn!(
                rule,
                table,
                key = sanitize(key),
                repeats,
                "a row that was done or dead is a candidate again at once, and so may others be: each is left alone ever longer; \
                 let done and dead write what the filter does not let through"
            );
        }
    }

    /// A claim ends: what has to be written for it waits in the hand.
    pub(super) fn end(&mut self, id: u64, ending: Ending, result: Option<&Row>, error: &str) {
        let Some(held) = self.hand.get(id) else { return };
        let key = self.key_of(&held.row);
        let meaning =
            Meaning { token: &held.token, now: self.context.wall.now(), row: &held.row, result, error };
        match self.rule.settle(ending, &held.row, &held.claimed, &meaning) {
            Ok(settlement) => {
                if settlement.is_none() {
                    self.count_ending(ending);
                    self.note_end(&key, ending);
                }
                self.hand.end(id, &key, ending, settlement);
            }
            Err(wrong) => {
                self.board.unsettled(format!("{} = {}: {wrong}", self.rule.key(), self.rule.id(&held.row)));
                self.hand.forget(id, &key);
            }
        }
    }

    fn count_ending(&mut self, ending: Ending) {
        match ending {
            Ending::Done => self.board.count(Count::Done, 1),
            Ending::Released => self.board.count(Count::Released, 1),
            // Counted when it failed.
            Ending::Failed | Ending::Dead | Ending::Renewed => {}
        }
    }

    pub(super) fn write(&self, batch: Batch, purpose: Purpose) -> LocalBoxFuture<'static, Settled> {
        let (service, turn) = (self.context.service.clone(), Turn { purpose, priority: self.rule.priority });
        let put = Put { path: batch.path.clone(), if_match: None, body: batch.body.clone() };
        let write = async move {
            let answer = service.put(put, turn).await;
            Settled { batch, answer }
        };
        write.boxed_local()
    }

    /// Writes what waits.
    pub(super) fn settle(&mut self) -> Option<LocalBoxFuture<'static, Report>> {
        let batch = self.hand.batch(self.batch)?;
        Some(self.write(batch, Purpose::Settlement).map(Report::Settled).boxed_local())
    }

    /// What became of what was written.
    pub(super) fn settled(&mut self, settled: Settled) {
        let Settled { batch, answer } = settled;
        let now = Instant::now();
        match answer {
            Ok(Reply::Rows { body, .. }) => {
                self.writing.over();
                self.batch = (self.batch * 2).min(self.largest);
                match self.compare(&batch, &body) {
                    Ok((done, untold)) => {
                        for id in done {
                            self.close(id);
                        }
                        let (check, lost): (Vec<_>, Vec<_>) = untold
                            .into_iter()
                            .partition(|id| self.hand.settlement(*id).is_some_and(|(_, repeated)| repeated));
                        self.to_check.extend(check);
                        lost.into_iter().for_each(|id| self.lose(id));
                    }
                    Err(reason) => self.unknown(&batch, reason, now),
                }
            }
            Ok(Reply::Unchanged { .. }) => {
                self.unknown(&batch, "the server answered a write with 304".to_owned(), now);
            }
            Err(Trouble::Unsettled(reason)) => self.unknown(&batch, reason, now),
            Err(Trouble::Away(reason)) => self.writing.failed(reason, now),
            Err(Trouble::Concurrent) => self.writing.crossed(now),
            Err(Trouble::Denied(reason)) => self.writing.denied(reason, now),
            Err(Trouble::TooLarge) => self.smaller(now),
            Err(Trouble::Refused(reason) | Trouble::Missing(reason)) => self.refused(&batch, &reason),
        }
    }

    fn unknown(&mut self, batch: &Batch, reason: String, now: Instant) {
        self.hand.repeat(&batch.ids);
        self.writing.failed(reason, now);
    }

    fn compare(&self, batch: &Batch, body: &[u8]) -> Result<(Vec<u64>, Vec<u64>), String> {
        let updates = batch.ids.iter().filter_map(|id| Some((*id, &self.hand.settlement(*id)?.0.update)));
        told(updates, body, &keys_of(&batch.path))
    }

    /// It is settled.
    fn close(&mut self, id: u64) {
        if let Some(ending) = self.hand.ending(id) {
            self.count_ending(ending);
            if let Some(held) = self.hand.get(id) {
                let key = self.key_of(&held.row);
                self.note_end(&key, ending);
            }
        }
        self.drop_row(id);
    }

    /// Somebody else has it, or it is gone.
    pub(super) fn lose(&mut self, id: u64) {
        let Some(held) = self.hand.get(id) else { return };
        tracing::warn!(
            rule = self.rule.name,
            row = sanitize(self.rule.id(&held.row).to_string()),
            "the claim is lost: somebody else has the row, or it is gone"
        );
        self.board.count(Count::Lost, 1);
        if let Some(cancel) = self.cancels.remove(&id) {
            cancel.cancel();
        }
        self.drop_row(id);
    }

    fn drop_row(&mut self, id: u64) {
        if let Some(held) = self.hand.get(id) {
            let key = self.key_of(&held.row);
            self.hand.forget(id, &key);
        }
    }

    /// The server refuses what is to be written. One row of many may be the reason: they are written in halves.
    fn refused(&mut self, batch: &Batch, reason: &str) {
        if batch.ids.len() > 1 {
            self.batch = (batch.ids.len() / 2).max(1);
            return;
        }
        self.batch = self.largest;
        let Some(id) = batch.ids.first().copied() else { return };
        let Some(held) = self.hand.get(id) else { return };
        let ending = self.hand.ending(id);
        self.board.unsettled(format!(
            "{} = {} cannot be written: {reason}",
            self.rule.key(),
            self.rule.id(&held.row)
        ));
        if ending == Some(Ending::Done) {
            self.worked(id, Some(Verdict::Failed(reason.to_owned())), Duration::ZERO);
            if self.hand.ending(id) == Some(Ending::Done) {
                self.drop_row(id);
            }
        } else {
            // Its lease will end.
            self.drop_row(id);
        }
    }

    /// Looks at rows of which the server told nothing when their settlement was repeated: the first may have been done.
    pub(super) fn check(&mut self) -> Option<LocalBoxFuture<'static, Report>> {
        let ids: Vec<_> =
            self.to_check.drain(..).filter(|id| self.hand.get(*id).is_some()).take(100).collect();
        if ids.is_empty() {
            return None;
        }
        let keys: Vec<_> = ids.iter().filter_map(|id| Some(self.rule.id(&self.hand.get(*id)?.row))).collect();
        let path = self.rule.rows_query(&keys);
        let service = self.context.service.clone();
        let check = async move {
            let answer = read(&service, path).await;
            Report::Checked(ids, answer)
        };
        Some(check.boxed_local())
    }

    /// Those that are as they were to become are settled; the others are lost.
    pub(super) fn checked(&mut self, ids: Vec<u64>, answer: Result<Vec<Row>, Trouble>) {
        let rows = match answer {
            Ok(rows) => rows,
            Err(trouble) => {
                self.writing.failed(trouble.to_string(), Instant::now());
                self.to_check.extend(ids);
                return;
            }
        };
        for id in ids {
            let Some(held) = self.hand.get(id) else { continue };
            let key = self.key_of(&held.row);
            let found = rows.iter().find(|row| self.key_of(row) == key);
            let is_done = found.zip(self.hand.settlement(id)).is_some_and(|(found, (settlement, _))| {
                let keys = keys_of(&settlement.path);
                let targets = settlement.update.iter().filter(|(name, _)| !keys.contains(name));
                // A point in time comes back in another form.
                targets.into_iter().all(|(name, value)| {
                    found.get(name) == Some(value)
                        || value.as_str().is_some_and(|text| crate::path::parse_instant(text).is_some())
                })
            });
            if is_done { self.close(id) } else { self.lose(id) }
        }
    }
}
