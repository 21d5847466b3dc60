//! The agent's next step and its deadlines, decided in one place.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_supervise::StopToken;
use tokio::time::Instant;

use super::{
    Agent, Triggers,
    poll_request::Target,
    request::{HandlerRun, Next, RequestResult},
};
use crate::{handler::Handler, outcome_kind::OutcomeKind, service::Service, status::RuleCounter};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Applies the input of notices and of operators.
    pub(super) fn apply_triggers(&mut self, triggers: Triggers, applied: &mut Triggers) {
        let now = Instant::now();
        self.polling.set_notices_up(triggers.notices_up, now);
        self.polling.notice(triggers.notices.wrapping_sub(applied.notices), now);
        if triggers.forced_polls != applied.forced_polls {
            self.parked = None;
            self.read_outage.reset();
            self.write_outage.reset();
            self.plan_outage.reset();
            self.poll_state.poll_unconditionally();
        }
        self.paused = triggers.paused;
        *applied = triggers;
    }

    /// Starts handlers and collects those that finish at once, so that their rows are settled
    /// together.
    pub(super) fn run_handlers(&mut self, handler_runs: &mut FuturesUnordered<HandlerRun>) {
        loop {
            self.start_handlers(handler_runs);
            let Some(Some((id, outcome, span))) = handler_runs.next().now_or_never() else { return };
            self.handler_finished(id, outcome, span);
        }
    }

    /// Starts handlers up to the rule's concurrency.
    fn start_handlers(&mut self, handler_runs: &FuturesUnordered<HandlerRun>) {
        if self.grace_ends.is_some() {
            return;
        }
        while self.rows.working() < self.rule.concurrency {
            let Some((id, task)) = self.rows.start(&self.rule.name) else { return };
            if let Some(attempt) =
                task.attempt.filter(|attempt| self.rule.max_attempts.is_some_and(|max| *attempt > max))
            {
                // Every attempt ended without a report, so the agents probably died.
                self.reporter.count(RuleCounter::Dead, 1);
                let text = format!("{} attempts began and none of them reported an outcome", attempt - 1);
                self.settle_row(id, OutcomeKind::Dead, None, &text);
                continue;
            }
            let cancel = StopToken::new();
            self.cancels.insert(id, cancel.clone());
            let (handler, stop) = (self.handler.clone(), self.stop.clone());
            let started = Instant::now();
            let work = async move {
                let outcome = tokio::select! {
                    biased;
                    () = cancel.cancelled() => None,
                    outcome = handler.handle_until(task, &stop) => Some(outcome),
                };
                (id, outcome, started.elapsed())
            };
            handler_runs.push(work.boxed_local());
        }
    }

    pub(super) fn next_request(&mut self, now: Instant) -> Next {
        let mut waits = Vec::new();
        match self.write_outage.until(now) {
            Some(until) => waits.push(until),
            None => {
                if let Some(request) = self.next_write(now, &mut waits) {
                    return Next::Request(request);
                }
            }
        }
        if self.is_finished() {
            return Next::Finished;
        }
        if let Some(span) = self.rule.lease() {
            waits.extend(self.rows.next_renewal(span));
        }
        match self.read_outage.until(now) {
            Some(until) => waits.push(until),
            None => {
                if let Some(request) = self.next_read(now, &mut waits) {
                    return Next::Request(request);
                }
            }
        }
        // A step that is due but blocked is retried when the blocking deadline passes.
        Next::Wait(waits.into_iter().filter(|until| *until > now).min())
    }

    /// Renewals first, then settlements. After a write, a requested poll goes first.
    fn next_write(
        &mut self,
        now: Instant,
        waits: &mut Vec<Instant>,
    ) -> Option<LocalBoxFuture<'static, RequestResult>> {
        if let Some(renewal) = self.renew(now) {
            return Some(renewal);
        }
        if let Some(check) = self.check_unknown() {
            return Some(check);
        }
        let poll_first = self.last_was_write && self.may_poll(now) && self.read_outage.until(now).is_none();
        if poll_first {
            return None;
        }
        if let Some(until) = self.collects_until(now) {
            waits.push(until);
            return None;
        }
        let settlement = self.settle_batch()?;
        self.last_was_write = true;
        Some(settlement)
    }

    fn next_read(
        &mut self,
        now: Instant,
        waits: &mut Vec<Instant>,
    ) -> Option<LocalBoxFuture<'static, RequestResult>> {
        waits.extend(self.next_confirmation());
        if let Some(request) = self.confirm_claim(now) {
            return Some(request);
        }
        if self.is_stopping() || self.paused {
            return None;
        }
        if let Some((_, until)) = &self.parked {
            if *until > now {
                waits.push(*until);
                return None;
            }
            self.poll_state.poll_unconditionally();
        }
        // Rows whose deferral has ended are candidates again.
        self.release_deferred(now);
        waits.extend(self.deferred.next());
        if self.may_poll(now) {
            self.last_was_write = false;
            return self.poll(Target::Candidates, now);
        }
        waits.extend(self.polling.due());
        waits.extend(self.plan_outage.until(now));
        if self.has_room()
            && let Some(due) = self.poll_state.held_rows_due()
        {
            if due <= now {
                return self.poll(Target::HeldRows, now);
            }
            waits.push(due);
        }
        None
    }

    fn may_poll(&self, now: Instant) -> bool {
        let parked = self.parked.as_ref().is_some_and(|(_, until)| *until > now);
        let wanted = self.poll_state.wanted || self.polling.is_due(now);
        let ready = wanted && self.has_room() && !self.deferred.is_full();
        ready && !self.paused && !self.is_stopping() && !parked && self.plan_outage.until(now).is_none()
    }

    fn release_deferred(&mut self, now: Instant) {
        if self.deferred.release(now) {
            self.poll_state.poll_unconditionally();
        }
    }

    /// True if at most half of the capacity is used: claiming for each settled row would cost one write per
    /// row.
    fn has_room(&self) -> bool {
        let capacity = self.capacity();
        self.rows.len() * 2 <= capacity && self.rows.len() < capacity
    }

    /// Number of rows to hold: at most the limit, and at most what handlers start within a second. Other
    /// agents could process rows that wait longer.
    pub(super) fn capacity(&self) -> usize {
        let concurrency = self.rule.concurrency;
        let a_second = match self.handler_time {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small number, and bounded by the limit"
            )]
            Some(span) => (concurrency as f64 / span.as_secs_f64().max(1e-6)).min(1e6) as usize,
            None => 0,
        };
        a_second.max(concurrency * 2).min(self.rule.limit)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.retiring || self.grace_ends.is_some()
    }

    /// Unconfirmed claims are left to their leases.
    fn is_finished(&self) -> bool {
        self.is_stopping()
            && self.rows.is_empty()
            && (self.unconfirmed.is_empty() || self.grace_ends.is_some_and(|ends| ends <= Instant::now()))
    }

    /// Next deadline that does not depend on the server.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let grace = self.grace_ends.filter(|_| !self.rows.unfinished(true).is_empty());
        [self.rows.next_expiry(), grace].into_iter().flatten().min()
    }

    pub(super) fn handle_deadlines(&mut self, now: Instant) {
        for id in self.rows.expired(now) {
            self.lose_claim(id);
        }
        if self.grace_ends.is_some_and(|ends| ends <= now) {
            self.release_running();
        }
        self.release_deferred(now);
    }

    pub(super) fn handle_result(&mut self, result: RequestResult) {
        self.polling.request_ended(result.wrote(), Instant::now());
        match result {
            RequestResult::Polled(poll, result) => self.handle_poll(*poll, result),
            RequestResult::Settled(batch, answer, begun) => self.handle_settled(&batch, answer, begun),
            RequestResult::Renewed(batch, answer, until) => self.handle_renewal(&batch, answer, until),
            RequestResult::Confirmed(claim, answer) => self.handle_confirmation(claim, answer),
            RequestResult::Checked(ids, answer) => self.handle_checked(ids, answer),
        }
        if self.grace_ends.is_some() {
            // A poll that was in flight at the stop may have claimed rows.
            for id in self.rows.unfinished(false) {
                self.settle_row(id, OutcomeKind::Later, None, "");
            }
        }
    }

    /// Publishes phase, reason and row counts.
    pub(super) fn publish_status(&self, asking: bool) {
        self.reporter.set_row_counts(self.rows.len(), self.rows.working(), self.deferred.len());
        self.reporter.set_oldest_claim(self.rows.oldest_claim());
        let now = Instant::now();
        let outage = self.write_outage.failure().or(self.read_outage.failure());
        let (phase, reason) = if self.grace_ends.is_some() {
            ("stopping", None)
        } else if let Some((reason, until)) = &self.parked
            && *until > now
        {
            ("parked", Some(reason.clone()))
        } else if let Some(failure) = outage {
            ("waiting", Some(failure.to_string()))
        } else if let Some(failure) = self.plan_outage.failure() {
            ("plan_failed", Some(failure.reason.clone()))
        } else if self.paused {
            ("paused", None)
        } else {
            let phase = if self.rows.is_empty() && !asking { "idle" } else { "working" };
            (phase, self.deferred.refusal().map(str::to_owned))
        };
        let until = self.write_outage.until(now).or(self.read_outage.until(now));
        let retry_in = until.map_or(Duration::ZERO, |until| until - now);
        let outage = outage.filter(|_| phase == "waiting");
        self.context.service.show_outage(&self.rule.name, outage.map(|failure| (failure.clone(), retry_in)));
        self.reporter.set_phase(phase, reason);
    }
}
