//! Polls for candidates and for expired claims, and handling of their results.

use std::{rc::Rc, time::Duration};

use futures_util::{FutureExt, future::LocalBoxFuture};
use orchestrator_supervise::DETAIL;
use orchestrator_text::sanitize;
use tokio::time::Instant;

use super::{
    Agent,
    poll_request::{MARGIN, Poll, Target, Unclaimed},
    request::RequestResult,
    unconfirmed_claim::UnconfirmedClaim,
};
use crate::{
    claimed_rows::ClaimedRow,
    handler::{Handler, Row},
    path,
    service::{RequestError, Service},
    state_change::{ChangeResult, Planned, key},
    status::RuleCounter,
};

/// Delay before a parked rule tries again: the table may have been changed.
const PARK_DELAY: Duration = Duration::from_secs(300);

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Starts a poll unless one of this target is in flight.
    pub(super) fn poll(
        &mut self,
        target: Target,
        now: Instant,
    ) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let time = self.context.clock.now();
        let slot = match target {
            Target::Candidates => &mut self.poll_state.candidates,
            Target::HeldRows => &mut self.poll_state.held_rows,
        };
        let mut change = slot.take()?;
        let mut idle = None;
        match target {
            Target::Candidates => {
                change.set_query(self.rule.query(time, self.deferred.len()));
                idle = self.poll_state.idle.take();
                self.poll_state.wanted = false;
                self.polling.polled(now);
            }
            Target::HeldRows => {
                let every = self.rule.lease().unwrap_or_default() / 4;
                let every = every.clamp(Duration::from_millis(200), Duration::from_secs(30));
                self.poll_state.held_rows_from = now + every;
                self.poll_state.next_lease_end = None;
            }
        }
        let deferred = self.deferred.keys().map(str::to_owned);
        let mut poll = Poll {
            target,
            idle,
            token: if self.rule.has_token() { self.token() } else { "".into() },
            max_rows: self.capacity().saturating_sub(self.rows.len()).min(self.batch).max(1),
            excluded: self.rows.keys().iter().cloned().chain(deferred).collect(),
            started: now,
            now: time,
            dry_run: self.rule.dry_run,
            planner: self.planner.clone(),
            stop: self.stop.clone(),
            change,
            unclaimed: Unclaimed::default(),
        };
        let (service, rule) = (self.context.service.clone(), self.rule.clone());
        let request = async move {
            let result = poll.execute(&service, &rule).await;
            RequestResult::Polled(Box::new(poll), result)
        };
        Some(request.boxed_local())
    }

    fn token(&self) -> Rc<str> {
        format!("{}/{}", self.context.agent, uuid::Uuid::new_v4()).into()
    }

    pub(super) fn handle_poll(&mut self, poll: Poll, result: ChangeResult) {
        let (target, now, unclaimed) = (poll.target, Instant::now(), &poll.unclaimed);
        self.poll_state.last_etags[target as usize] = poll.change.last_etag().map(str::to_owned);
        self.poll_state.cached_bytes[target as usize] = poll.change.cached_bytes();
        self.reporter.set_cached_bytes(self.poll_state.cached_bytes.iter().sum());
        if target == Target::HeldRows {
            let wait = |at| now + self.context.clock.until(path::saturating_add(at, MARGIN));
            self.poll_state.next_lease_end = unclaimed.next_lease_end.map(wait);
        }
        for text in &unclaimed.errors {
            self.reporter.report_unsettled(text.clone());
        }
        for key in unclaimed.faulty.iter().chain(&unclaimed.left) {
            self.deferred.failed(key, now, fastrand::f64());
        }
        if target == Target::Candidates && !matches!(result, ChangeResult::Failed(_)) {
            let claimed = if let ChangeResult::Changed(change) = &result { change.changed.len() } else { 0 };
            self.reporter.set_candidates(unclaimed.found.saturating_sub(unclaimed.excluded + claimed));
        }
        if poll.dry_run && target == Target::Candidates && matches!(result, ChangeResult::Empty { .. }) {
            self.reporter.set_would_claim(unclaimed.would_claim.clone());
        }
        if !matches!(result, ChangeResult::Failed(_)) {
            self.read_outage.reset();
            self.parked = None;
            self.reporter.polled(self.context.clock.now());
        }
        match result {
            ChangeResult::Unmodified { etag } => {
                self.poll_state.idle = self.rule.is_timeless().then_some(etag)
            }
            ChangeResult::Empty { etag } if target == Target::Candidates => {
                self.handle_empty(etag, unclaimed)
            }
            ChangeResult::Empty { .. } => {}
            ChangeResult::Changed(change) => {
                self.reporter.count(RuleCounter::PassedOver, change.passed_over.len());
                // Skipped rows may still be candidates.
                self.poll_state.wanted = true;
                if change.changed.is_empty() {
                    self.polling.claim_lost(fastrand::f64());
                    self.read_outage.conflicted(now);
                } else {
                    self.polling.claimed();
                }
                self.handle_claimed(change.changed, &poll);
            }
            ChangeResult::Unknown { plan, reason } => self.handle_unknown_claim(plan, &reason, &poll, now),
            ChangeResult::Failed(error) => self.handle_poll_error(error, target, now),
        }
        match target {
            Target::Candidates => self.poll_state.candidates = Some(poll.change),
            Target::HeldRows => self.poll_state.held_rows = Some(poll.change),
        }
        match poll.unclaimed.failure {
            Some(reason) => {
                self.poll_state.poll_unconditionally();
                self.plan_outage.failed(reason, now);
            }
            None if target == Target::Candidates => self.plan_outage.reset(),
            None => {}
        }
    }

    /// Handles a poll without anything to claim.
    fn handle_empty(&mut self, etag: Option<String>, unclaimed: &Unclaimed) {
        let settled = unclaimed.excluded == 0 && unclaimed.faulty.is_empty() && unclaimed.left.is_empty();
        if settled && self.rule.is_timeless() {
            self.poll_state.idle = etag;
        }
        if unclaimed.more && !self.rule.dry_run {
            self.poll_state.wanted = true;
        }
    }

    /// Adds claimed rows and updates the metrics.
    pub(super) fn handle_claimed(&mut self, rows: Vec<Planned>, poll: &Poll) {
        let count = rows.len();
        self.reporter.count(RuleCounter::Claimed, count);
        if poll.target == Target::HeldRows {
            self.reporter.count(RuleCounter::TakenOver, count);
        }
        if let Some((row, _)) = rows.last()
            && let Some(made) = row.get("RCT").and_then(|made| path::parse_instant(made.as_str()?))
        {
            let lag = self.context.clock.now().duration_since(made);
            self.reporter.set_lag(Duration::try_from(lag).unwrap_or_default());
        }
        let until = self.rule.lease().map(|span| poll.started + span);
        for (row, claimed) in rows {
            self.add_claimed(row, claimed, poll.token.clone(), until);
        }
    }

    pub(super) fn add_claimed(&mut self, row: Row, claimed: Row, token: Rc<str>, until: Option<Instant>) {
        let key = self.key_of(&row);
        tracing::debug!(target: DETAIL, rule = self.rule.name, key = sanitize(&key), token = &*token, "a row is claimed");
        self.deferred.claimed(&key, Instant::now());
        let counts = self.rule.counts_attempts();
        let attempt = counts.then(|| self.rule.attempts(&row).saturating_add(1));
        let claimed_at = self.context.clock.now();
        let former_token = self.rule.former_token(&row);
        self.rows.insert(key, ClaimedRow { row, claimed, token, former_token, until, attempt, claimed_at });
    }

    pub(super) fn key_of(&self, row: &Row) -> String {
        key(row, &[self.rule.key().to_owned()])
    }

    fn handle_unknown_claim(&mut self, plan: Vec<Planned>, reason: &str, poll: &Poll, now: Instant) {
        self.write_outage.failed(reason.to_owned(), now);
        self.poll_state.poll_unconditionally();
        if self.rule.has_token() {
            self.unconfirmed.push_back(UnconfirmedClaim::new(
                poll.token.clone(),
                plan,
                poll.started,
                poll.target,
                now,
            ));
            return;
        }
        // Without a token the owner cannot be determined: an operator has to look.
        let keys: Vec<_> = plan.iter().map(|(row, _)| self.rule.id(row).to_string()).collect();
        self.reporter.report_unsettled(format!(
            "the claim of {} = {} may have been written, but its answer is lost ({reason}): check whether the rows are claimed, and \
             give claim.set a column for $token",
            self.rule.key(),
            keys.join(", ")
        ));
    }

    fn handle_poll_error(&mut self, error: RequestError, target: Target, now: Instant) {
        let candidates = target == Target::Candidates;
        if candidates {
            self.poll_state.poll_unconditionally();
        } else {
            self.poll_state.last_etags[1] = None;
        }
        match error {
            RequestError::PreconditionFailed => {
                self.reporter.count(RuleCounter::Conflicts, 1);
                self.polling.claim_lost(fastrand::f64());
                self.read_outage.conflicted(now);
            }
            RequestError::Aborted => {
                self.polling.claim_lost(fastrand::f64());
                self.read_outage.aborted(now);
            }
            RequestError::PayloadTooLarge => self.reduce_batch(now),
            RequestError::Unavailable(reason) | RequestError::OutcomeUnknown(reason) => {
                self.read_outage.failed(reason, now)
            }
            RequestError::Unauthorized(reason) => self.read_outage.denied(reason, now),
            RequestError::Rejected(reason) | RequestError::NotFound(reason) => {
                let reason = sanitize(reason);
                tracing::error!(rule = self.rule.name, reason, "the rule is parked");
                self.parked = Some((reason, now + PARK_DELAY.min(self.retry_max)));
            }
        }
    }

    /// Halves the size of writes after 413.
    pub(super) fn reduce_batch(&mut self, now: Instant) {
        if self.batch > 1 {
            self.batch /= 2;
            self.batch_max = self.batch;
            tracing::warn!(
                rule = self.rule.name,
                rows = self.batch,
                "the server accepts fewer rows in one write"
            );
        } else {
            self.write_outage.failed("the server rejects a write of one row as too large".to_owned(), now);
        }
    }
}
