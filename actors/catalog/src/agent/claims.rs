//! Claimed rows of one rule, their outcomes, and the rows that are not claimed for a while.

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    time::Duration,
};

use orchestrator_catalog_rules::{
    outcome_kind::OutcomeKind,
    rows::{Row, key},
    template::Variables,
};
use orchestrator_subsystem::DETAIL;
use orchestrator_supervise::StopToken;
use orchestrator_text::sanitize;
use tokio::time::Instant;

use super::rule_cx::RuleCx;
use crate::{
    claimed_rows::{ClaimedRow, ClaimedRows},
    deferred_rows::DeferredRows,
    handler::{Failure, Outcome, Task},
    status::RuleCounter,
};

/// Claimed rows of one rule, from the claim to the settlement.
pub(super) struct Claims {
    cx: Rc<RuleCx>,
    pub(super) rows: ClaimedRows,
    /// Cancels the handler of a lost row.
    cancels: HashMap<u64, StopToken>,
    /// Rows that are not claimed for a while.
    pub(super) deferred: DeferredRows,
    /// A recurring row was logged, and some row has been deferred ever since.
    recurrence_logged: bool,
    /// Reasons of the rows that are dead once that is written.
    dead_reasons: BTreeMap<u64, String>,
    /// Moving average of handlers' durations.
    handler_time: Option<Duration>,
}

impl Claims {
    pub(super) fn new(cx: Rc<RuleCx>) -> Self {
        Self {
            rows: ClaimedRows::default(),
            cancels: HashMap::new(),
            deferred: DeferredRows::new(cx.config.backoff.backoff()),
            recurrence_logged: false,
            dead_reasons: BTreeMap::new(),
            handler_time: None,
            cx,
        }
    }

    pub(super) fn key_of(&self, row: &Row) -> String {
        key(row, &[self.cx.rule.key().to_owned()])
    }

    /// Adds a row that `claimed` has claimed; its lease ends at `until`.
    pub(super) fn add(&mut self, row: Row, claimed: Row, token: Rc<str>, until: Option<Instant>) {
        let (rule, key) = (&self.cx.rule, self.key_of(&row));
        tracing::debug!(target: DETAIL, rule = rule.name, key = sanitize(&key), token = &*token, "a row is claimed");
        self.deferred.claimed(&key, Instant::now());
        let attempt = rule.counts_attempts().then(|| rule.attempts(&row).saturating_add(1));
        let claimed_at = self.cx.clock.now();
        let former_token = rule.former_token(&row);
        self.rows.insert(key, ClaimedRow { row, claimed, token, former_token, until, attempt, claimed_at });
    }

    /// True if at most half of the capacity is used: claiming for each settled row would cost one write per
    /// row.
    pub(super) fn has_room(&self) -> bool {
        let capacity = self.capacity();
        self.rows.len() * 2 <= capacity && self.rows.len() < capacity
    }

    /// Number of rows to hold: at most the limit, and at most what handlers start within a second. Other
    /// agents could process rows that wait longer.
    pub(super) fn capacity(&self) -> usize {
        let concurrency = self.cx.config.concurrency as usize;
        let a_second = match self.handler_time {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number, and bounded by the limit"
            )]
            Some(span) => (concurrency as f64 / span.as_secs_f64().max(1e-6)).min(1e6) as usize,
            None => 0,
        };
        a_second.max(concurrency * 2).min(self.cx.rule.limit)
    }

    /// The next row for a handler, and what cancels it; None: all handlers that may run do, or no row waits.
    pub(super) fn start(&mut self) -> Option<(u64, Task, StopToken)> {
        while self.rows.working() < self.cx.config.concurrency as usize {
            let (id, task) = self.rows.start(&self.cx.rule.name)?;
            let is_exhausted = |attempt: &u32| self.cx.rule.max_attempts.is_some_and(|max| *attempt > max);
            if let Some(attempt) = task.attempt.filter(is_exhausted) {
                // Every attempt ended without a report, so the agents probably died.
                self.cx.reporter.count(RuleCounter::Dead, 1);
                let text = format!("{} attempts began and none of them reported an outcome", attempt - 1);
                self.settle(id, OutcomeKind::Dead, None, &text);
                continue;
            }
            let cancel = StopToken::new();
            self.cancels.insert(id, cancel.clone());
            return Some((id, task, cancel));
        }
        None
    }

    /// Records the outcome of a handler, which ran for `span`. None: the row was lost, and its handler was
    /// cancelled.
    pub(super) fn handler_finished(&mut self, id: u64, outcome: Option<Outcome>, span: Duration) {
        self.cancels.remove(&id);
        let Some(outcome) = outcome else { return };
        self.cx.reporter.record_handler_time(span);
        // Exponential moving average.
        self.handler_time = Some(self.handler_time.map_or(span, |before| (before * 3 + span) / 4));
        let cx = self.cx.clone();
        let rule = &cx.rule.name;
        match outcome {
            Outcome::Done(result) => self.settle(id, OutcomeKind::Done, Some(&result), ""),
            Outcome::Later(error) => {
                tracing::info!(rule, error = sanitize(&error), "the handler postponed a row");
                self.defer(id);
                self.settle(id, OutcomeKind::Later, None, &error);
            }
            // Nobody takes over a row without a lease.
            Outcome::Continues if self.cx.rule.lease().is_none() => {
                self.settle(id, OutcomeKind::Later, None, "");
            }
            Outcome::Continues => {
                let Some(key) = self.rows.get(id).map(|held| self.key_of(&held.row)) else { return };
                tracing::info!(rule, key = sanitize(&key), "a worker has the job: the row keeps its claim");
                self.rows.remove(id, &key);
            }
            Outcome::Failed(failure) => self.attempt_failed(id, &failure),
            Outcome::Dead(Failure { error, result }) => {
                self.cx.reporter.count(RuleCounter::Failed, 1);
                self.cx.reporter.set_last_error(&error);
                self.cx.reporter.count(RuleCounter::Dead, 1);
                self.settle(id, OutcomeKind::Dead, Some(&result), &error);
            }
        }
    }

    fn attempt_failed(&mut self, id: u64, Failure { error, result }: &Failure) {
        self.cx.reporter.count(RuleCounter::Failed, 1);
        self.cx.reporter.set_last_error(error);
        let attempt = self.rows.get(id).and_then(|held| held.attempt);
        let last = attempt.zip(self.cx.rule.max_attempts).is_some_and(|(attempt, max)| attempt >= max);
        if last {
            self.cx.reporter.count(RuleCounter::Dead, 1);
        } else {
            self.defer(id);
        }
        let outcome = if last { OutcomeKind::Dead } else { OutcomeKind::Failed };
        self.settle(id, outcome, Some(result), error);
    }

    /// Defers a row after a failed or postponed attempt.
    fn defer(&mut self, id: u64) {
        let Some(held) = self.rows.get(id) else { return };
        let key = self.key_of(&held.row);
        self.deferred.failed(&key, Instant::now(), fastrand::f64());
    }

    /// Computes the settlement of a row, to be written with the next batch.
    fn settle(&mut self, id: u64, outcome: OutcomeKind, result: Option<&Row>, error: &str) {
        let Some(held) = self.rows.get(id) else { return };
        let key = self.key_of(&held.row);
        if outcome == OutcomeKind::Dead {
            self.dead_reasons.retain(|other, _| self.rows.get(*other).is_some());
            self.dead_reasons.insert(id, error.to_owned());
        }
        let variables =
            Variables { token: &held.token, now: self.cx.clock.now(), row: &held.row, result, error };
        match self.cx.rule.settle(outcome, &held.row, &held.claimed, &variables) {
            Ok(settlement) => {
                if settlement.is_none() {
                    self.record_settled(id, &key, outcome);
                }
                self.rows.set_outcome(id, &key, outcome, settlement);
            }
            Err(errors) => {
                self.report_unsettled(id, &format!(": {errors}"));
                self.rows.remove(id, &key);
            }
        }
    }

    /// Reports that the outcome of a row is not written; `reason` follows the row's key.
    pub(super) fn report_unsettled(&self, id: u64, reason: &str) {
        if let Some(held) = self.rows.get(id) {
            let (column, key) = (self.cx.rule.key(), self.cx.rule.id(&held.row));
            self.cx.reporter.report_unsettled(format!("{column} = {key}{reason}"));
        }
    }

    /// Counts and removes a row whose settlement is written.
    pub(super) fn finish(&mut self, id: u64) {
        if let Some((outcome, held)) = self.rows.outcome(id).zip(self.rows.get(id)) {
            let key = self.key_of(&held.row);
            let (rule, token) = (&self.cx.rule.name, &*held.token);
            tracing::debug!(target: DETAIL, rule, key = sanitize(&key), token, ?outcome, "a row is settled");
            self.record_settled(id, &key, outcome);
        }
        self.forget(id);
    }

    /// Counts a settled row, and reports it if it is dead. A row that was claimed right after its last
    /// settlement is deferred.
    fn record_settled(&mut self, id: u64, key: &str, outcome: OutcomeKind) {
        match outcome {
            OutcomeKind::Done => self.cx.reporter.count(RuleCounter::Done, 1),
            OutcomeKind::Later => self.cx.reporter.count(RuleCounter::Released, 1),
            // Counted when the handler failed.
            OutcomeKind::Failed | OutcomeKind::Dead => {}
        }
        if let Some((reason, held)) = self.dead_reasons.remove(&id).zip(self.rows.get(id)) {
            self.cx.reporter.row_died(&self.cx.rule.id(&held.row), &reason);
        }
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
        self.cx.reporter.count(RuleCounter::Recurred, 1);
        if !std::mem::replace(&mut self.recurrence_logged, true) {
            let (rule, table) = (&self.cx.rule.name, sanitize(self.cx.rule.table()));
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

    /// Removes a row that another agent or a user has changed, or that was deleted, and cancels its handler.
    pub(super) fn lose(&mut self, id: u64) {
        let Some(held) = self.rows.get(id) else { return };
        tracing::warn!(
            rule = self.cx.rule.name,
            row = sanitize(self.cx.rule.id(&held.row).to_string()),
            "the claim is lost: another agent or a user has changed the row, or it was deleted"
        );
        self.cx.reporter.count(RuleCounter::Lost, 1);
        self.cancel(id);
        self.forget(id);
    }

    fn cancel(&mut self, id: u64) {
        if let Some(cancel) = self.cancels.remove(&id) {
            cancel.cancel();
        }
    }

    pub(super) fn forget(&mut self, id: u64) {
        if let Some(held) = self.rows.get(id) {
            let key = self.key_of(&held.row);
            self.rows.remove(id, &key);
        }
    }

    /// Releases the rows whose handlers have not started.
    pub(super) fn release_pending(&mut self) {
        for id in self.rows.unfinished(false) {
            self.settle(id, OutcomeKind::Later, None, "");
        }
    }

    /// Cancels all handlers, and releases their rows.
    pub(super) fn release_all(&mut self) {
        for id in self.rows.unfinished(true) {
            self.cancel(id);
            self.settle(id, OutcomeKind::Later, None, "");
        }
    }
}
