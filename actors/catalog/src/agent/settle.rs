//! Settlement of claims: batched writes, each row fenced by its claim.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, future::LocalBoxFuture};
use orchestrator_supervise::DETAIL;
use orchestrator_text::sanitize;
use tokio::time::Instant;

use super::{Agent, request::RequestResult};
use crate::{
    claimed_rows::Batch,
    handler::{Failure, Handler, Outcome, Row},
    outcome_kind::OutcomeKind,
    priority_semaphore::{Purpose, WritePriority},
    service::{Put, RequestError, Service},
    status::RuleCounter,
    template::Variables,
};

/// Longest time for which settlements are collected.
const COLLECT_MAX: Duration = Duration::from_millis(50);

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    pub(super) fn handler_finished(&mut self, id: u64, outcome: Option<Outcome>, span: Duration) {
        self.cancels.remove(&id);
        // None: the row was lost, and its handler was cancelled.
        let Some(outcome) = outcome else { return };
        self.reporter.record_handler_time(span);
        // Exponential moving average.
        self.handler_time = Some(self.handler_time.map_or(span, |before| (before * 3 + span) / 4));
        match outcome {
            Outcome::Done(result) => self.settle_row(id, OutcomeKind::Done, Some(&result), ""),
            Outcome::Later(error) => {
                tracing::info!(
                    rule = self.rule.name,
                    error = sanitize(&error),
                    "the handler postponed a row"
                );
                self.defer(id);
                self.settle_row(id, OutcomeKind::Later, None, &error);
            }
            // Nobody takes over a row without a lease.
            Outcome::Continues if self.rule.lease().is_none() => {
                self.settle_row(id, OutcomeKind::Later, None, "");
            }
            Outcome::Continues => {
                let Some(key) = self.rows.get(id).map(|held| self.key_of(&held.row)) else { return };
                tracing::info!(
                    rule = self.rule.name,
                    key = sanitize(&key),
                    "a worker has the job: the row keeps its claim"
                );
                self.rows.remove(id, &key);
            }
            Outcome::Failed(Failure { error, result }) => {
                self.reporter.count(RuleCounter::Failed, 1);
                self.reporter.set_last_error(&error);
                let held = self.rows.get(id);
                let attempt = held.and_then(|held| held.attempt);
                let last = attempt.zip(self.rule.max_attempts).is_some_and(|(attempt, max)| attempt >= max);
                if last {
                    self.reporter.count(RuleCounter::Dead, 1);
                } else {
                    self.defer(id);
                }
                let outcome = if last { OutcomeKind::Dead } else { OutcomeKind::Failed };
                self.settle_row(id, outcome, Some(&result), &error);
            }
            Outcome::Dead(Failure { error, result }) => {
                self.reporter.count(RuleCounter::Failed, 1);
                self.reporter.set_last_error(&error);
                self.reporter.count(RuleCounter::Dead, 1);
                self.settle_row(id, OutcomeKind::Dead, Some(&result), &error);
            }
        }
    }

    /// Defers a row after a failed or postponed attempt.
    fn defer(&mut self, id: u64) {
        let Some(held) = self.rows.get(id) else { return };
        let key = self.key_of(&held.row);
        self.deferred.failed(&key, Instant::now(), fastrand::f64());
    }

    /// Records a settled row. A row that was claimed right after its last settlement is deferred.
    fn record_settled(&mut self, key: &str, outcome: OutcomeKind) {
        if !matches!(outcome, OutcomeKind::Done | OutcomeKind::Dead) {
            return;
        }
        if self.deferred.is_empty() {
            self.recurrence_logged = false;
        }
        let repeats = self.deferred.settled(key, Instant::now(), fastrand::f64());
        if repeats == 0 {
            return;
        }
        self.reporter.count(RuleCounter::Recurred, 1);
        if !std::mem::replace(&mut self.recurrence_logged, true) {
            let (rule, table) = (&self.rule.name, sanitize(self.rule.table()));
            tracing::warn!(
                rule,
                table,
                key = sanitize(key),
                repeats,
                "a row that was done or dead is a candidate again at once, and is deferred longer each time; \
                 let done and dead write values that the filter excludes"
            );
        }
    }

    /// Reports a row as dead, once that is written.
    fn report_dead(&mut self, id: u64) {
        if let Some((reason, held)) = self.dead_reasons.remove(&id).zip(self.rows.get(id)) {
            self.reporter.row_died(&self.rule.id(&held.row), &reason);
        }
    }

    /// Computes the settlement of a row, to be written with the next batch.
    pub(super) fn settle_row(&mut self, id: u64, outcome: OutcomeKind, result: Option<&Row>, error: &str) {
        let Some(held) = self.rows.get(id) else { return };
        let key = self.key_of(&held.row);
        if outcome == OutcomeKind::Dead {
            self.dead_reasons.retain(|other, _| self.rows.get(*other).is_some());
            self.dead_reasons.insert(id, error.to_owned());
        }
        let variables =
            Variables { token: &held.token, now: self.context.clock.now(), row: &held.row, result, error };
        match self.rule.settle(outcome, &held.row, &held.claimed, &variables) {
            Ok(settlement) => {
                if settlement.is_none() {
                    self.count_outcome(outcome);
                    self.report_dead(id);
                    self.record_settled(&key, outcome);
                }
                self.rows.set_outcome(id, &key, outcome, settlement);
            }
            Err(errors) => {
                self.reporter.report_unsettled(format!(
                    "{} = {}: {errors}",
                    self.rule.key(),
                    self.rule.id(&held.row)
                ));
                self.rows.remove(id, &key);
            }
        }
    }

    fn count_outcome(&mut self, outcome: OutcomeKind) {
        match outcome {
            OutcomeKind::Done => self.reporter.count(RuleCounter::Done, 1),
            OutcomeKind::Later => self.reporter.count(RuleCounter::Released, 1),
            // Counted when the handler failed.
            OutcomeKind::Failed | OutcomeKind::Dead => {}
        }
    }

    pub(super) fn write_batch(
        &self,
        batch: &Batch,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Bytes, RequestError>> + 'static + use<S, H> {
        let (service, priority) =
            (self.context.service.clone(), WritePriority { purpose, priority: self.rule.priority });
        let put = Put { path: batch.path.clone(), if_match: None, body: batch.body.clone() };
        async move { service.put(put, priority).await }
    }

    pub(super) fn settle_batch(&mut self) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let batch = self.rows.batch(self.batch)?;
        let (write, begun) = (self.write_batch(&batch, Purpose::Settlement), Instant::now());
        Some(write.map(move |answer| RequestResult::Settled(batch, answer, begun)).boxed_local())
    }

    /// Settlements are collected for one write: as long as the last one took, while other rows may be settled
    /// meanwhile. A write costs most servers far more than a row.
    pub(super) fn collects_until(&self, now: Instant) -> Option<Instant> {
        self.collect_until.filter(|until| *until > now && self.rows.working() > 0 && !self.is_stopping())
    }

    /// Handles the response to a batch of settlements, whose write began at `begun`.
    pub(super) fn handle_settled(
        &mut self,
        batch: &Batch,
        answer: Result<Bytes, RequestError>,
        begun: Instant,
    ) {
        let now = Instant::now();
        self.collect_until = Some(now + (now - begun).min(COLLECT_MAX));
        match answer {
            Ok(body) => {
                self.write_outage.reset();
                self.batch = (self.batch * 2).min(self.batch_max);
                match batch.split_by_response(&body) {
                    Ok((done, missing)) => {
                        for id in done {
                            self.finish_row(id);
                        }
                        for id in missing {
                            if !self.rows.missing(id) {
                                self.lose_claim(id);
                            }
                        }
                    }
                    Err(reason) => self.outcome_unknown(batch, reason, now),
                }
            }
            Err(RequestError::OutcomeUnknown(reason)) => self.outcome_unknown(batch, reason, now),
            Err(RequestError::Unavailable(reason)) => self.write_outage.failed(reason, now),
            Err(RequestError::PreconditionFailed | RequestError::Aborted) => {
                self.write_outage.conflicted(now)
            }
            Err(RequestError::Unauthorized(reason)) => self.write_outage.denied(reason, now),
            Err(RequestError::PayloadTooLarge) => self.reduce_batch(now),
            Err(RequestError::Rejected(reason) | RequestError::NotFound(reason)) => {
                self.handle_rejected(batch, &reason)
            }
        }
    }

    fn outcome_unknown(&mut self, batch: &Batch, reason: String, now: Instant) {
        self.rows.outcome_unknown(&batch.ids);
        self.write_outage.failed(reason, now);
    }

    /// Counts and removes a settled row.
    pub(super) fn finish_row(&mut self, id: u64) {
        if let Some(outcome) = self.rows.outcome(id) {
            self.count_outcome(outcome);
            self.report_dead(id);
            if let Some(held) = self.rows.get(id) {
                let key = self.key_of(&held.row);
                let (rule, token) = (&self.rule.name, &*held.token);
                tracing::debug!(target: DETAIL, rule, key = sanitize(&key), token, ?outcome, "a row is settled");
                self.record_settled(&key, outcome);
            }
        }
        self.forget_row(id);
    }

    /// Removes a row that another agent or a user has changed, or that was deleted, and cancels its handler.
    pub(super) fn lose_claim(&mut self, id: u64) {
        let Some(held) = self.rows.get(id) else { return };
        tracing::warn!(
            rule = self.rule.name,
            row = sanitize(self.rule.id(&held.row).to_string()),
            "the claim is lost: another agent or a user has changed the row, or it was deleted"
        );
        self.reporter.count(RuleCounter::Lost, 1);
        if let Some(cancel) = self.cancels.remove(&id) {
            cancel.cancel();
        }
        self.forget_row(id);
    }

    pub(super) fn forget_row(&mut self, id: u64) {
        if let Some(held) = self.rows.get(id) {
            let key = self.key_of(&held.row);
            self.rows.remove(id, &key);
        }
    }

    /// Handles a rejected batch. One row may be the cause, so the batch is bisected.
    fn handle_rejected(&mut self, batch: &Batch, reason: &str) {
        if batch.ids.len() > 1 {
            self.batch = (batch.ids.len() / 2).max(1);
            return;
        }
        self.batch = self.batch_max;
        let Some(id) = batch.ids.first().copied() else { return };
        let Some(held) = self.rows.get(id) else { return };
        let (outcome, key) = (self.rows.outcome(id), self.key_of(&held.row));
        self.reporter.report_unsettled(format!(
            "{} = {} cannot be written: {reason}",
            self.rule.key(),
            self.rule.id(&held.row)
        ));
        if outcome == Some(OutcomeKind::Done) {
            self.handler_finished(id, Some(Outcome::failed(reason)), Duration::ZERO);
            if self.rows.outcome(id) == Some(OutcomeKind::Done) {
                self.forget_row(id);
            }
        } else {
            // The row becomes available when its lease ends.
            self.forget_row(id);
        }
        self.deferred.refused(&key, Instant::now(), reason);
    }
}
