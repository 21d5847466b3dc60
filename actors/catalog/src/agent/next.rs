//! The agent's next step and its deadlines, decided in one place.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    Agent, Triggers,
    poll_request::Target,
    read,
    request::{HandlerRun, Next, RequestResult},
};
use crate::{
    claimed_rows::Batch,
    handler::Handler,
    priority_semaphore::{Purpose, WritePriority},
    service::{Put, RequestError, Service},
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Applies the input of notices and of operators.
    pub(super) fn apply_triggers(&mut self, triggers: Triggers, applied: &mut Triggers) {
        let now = Instant::now();
        self.poller.polling.set_notices_up(triggers.notices_up, now);
        self.poller.polling.notice(triggers.notices.wrapping_sub(applied.notices), now);
        if triggers.forced_polls != applied.forced_polls {
            self.poller.force();
            self.settler.outage.reset();
        }
        self.paused = triggers.paused;
        *applied = triggers;
    }

    /// Starts handlers and collects those that finish at once, so that their rows are settled
    /// together.
    pub(super) fn run_handlers(&mut self, handler_runs: &mut FuturesUnordered<HandlerRun>) {
        loop {
            if self.grace_ends.is_none() {
                self.start_handlers(handler_runs);
            }
            let Some(Some((id, outcome, span))) = handler_runs.next().now_or_never() else { return };
            self.claims.handler_finished(id, outcome, span);
        }
    }

    fn start_handlers(&mut self, handler_runs: &FuturesUnordered<HandlerRun>) {
        while let Some((id, task, cancel)) = self.claims.start() {
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
        match self.settler.outage.until(now) {
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
        if let Some(span) = self.cx.rule.lease() {
            waits.extend(self.claims.rows.next_renewal(span));
        }
        match self.poller.outage.until(now) {
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
        if let Some((batch, until)) = self.settler.renewals(&self.claims, now) {
            let write = self.write(&batch, Purpose::Renewal);
            return Some(write.map(move |answer| RequestResult::Renewed(batch, answer, until)).boxed_local());
        }
        if let Some((ids, path)) = self.claims.rows_to_check(&self.cx.rule) {
            let service = self.service.clone();
            let check = async move { RequestResult::Checked(ids, read(&service, path).await) };
            return Some(check.boxed_local());
        }
        let poll_first = self.last_was_write && self.may_poll(now) && self.poller.outage.until(now).is_none();
        if poll_first {
            return None;
        }
        if self.claims.rows.working() > 0
            && !self.is_stopping()
            && let Some(until) = self.settler.collects_until(now)
        {
            waits.push(until);
            return None;
        }
        let batch = self.claims.rows.batch(self.settler.batch)?;
        self.last_was_write = true;
        let (write, begun) = (self.write(&batch, Purpose::Settlement), Instant::now());
        Some(write.map(move |answer| RequestResult::Settled(batch, answer, begun)).boxed_local())
    }

    fn write(
        &self,
        batch: &Batch,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Bytes, RequestError>> + 'static + use<S, H> {
        let (service, priority) =
            (self.service.clone(), WritePriority { purpose, priority: self.cx.config.priority });
        let put = Put { path: batch.path.clone(), if_match: None, body: batch.body.clone() };
        async move { service.put(put, priority).await }
    }

    fn next_read(
        &mut self,
        now: Instant,
        waits: &mut Vec<Instant>,
    ) -> Option<LocalBoxFuture<'static, RequestResult>> {
        waits.extend(self.poller.next_confirmation());
        if let Some((claim, path)) = self.poller.claim_to_confirm(now) {
            let service = self.service.clone();
            let request = async move { RequestResult::Confirmed(claim, read(&service, path).await) };
            return Some(request.boxed_local());
        }
        if self.is_stopping() || self.paused {
            return None;
        }
        if let Some(until) = self.poller.parked_until(now) {
            waits.push(until);
            return None;
        }
        if self.poller.parked.is_some() {
            self.poller.state.poll_unconditionally();
        }
        // Rows whose deferral has ended are candidates again.
        self.release_deferred(now);
        waits.extend(self.claims.deferred.next());
        if self.may_poll(now) {
            self.last_was_write = false;
            return self.poll(Target::Candidates, now);
        }
        waits.extend(self.poller.polling.due());
        waits.extend(self.poller.plan_outage.until(now));
        if self.claims.has_room()
            && let Some(due) = self.poller.state.held_rows_due()
        {
            if due <= now {
                return self.poll(Target::HeldRows, now);
            }
            waits.push(due);
        }
        None
    }

    fn poll(&mut self, target: Target, now: Instant) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let mut poll = self.poller.begin(target, now, &self.claims, self.settler.batch, self.stop.clone())?;
        let (service, cx) = (self.service.clone(), self.cx.clone());
        let request = async move {
            let result = poll.execute(&service, &cx.rule).await;
            RequestResult::Polled(Box::new(poll), result)
        };
        Some(request.boxed_local())
    }

    fn may_poll(&self, now: Instant) -> bool {
        let has_room = self.claims.has_room() && !self.claims.deferred.is_full();
        has_room && !self.paused && !self.is_stopping() && self.poller.is_due(now)
    }

    fn release_deferred(&mut self, now: Instant) {
        if self.claims.deferred.release(now) {
            self.poller.state.poll_unconditionally();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.retiring || self.grace_ends.is_some()
    }

    /// Unconfirmed claims are left to their leases.
    fn is_finished(&self) -> bool {
        let graceless = self.grace_ends.is_some_and(|ends| ends <= Instant::now());
        self.is_stopping() && self.claims.rows.is_empty() && (self.poller.unconfirmed.is_empty() || graceless)
    }

    /// Next deadline that does not depend on the server.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let grace = self.grace_ends.filter(|_| !self.claims.rows.unfinished(true).is_empty());
        [self.claims.rows.next_expiry(), grace].into_iter().flatten().min()
    }

    pub(super) fn handle_deadlines(&mut self, now: Instant) {
        for id in self.claims.rows.expired(now) {
            self.claims.lose(id);
        }
        if self.grace_ends.is_some_and(|ends| ends <= now) {
            self.claims.release_all();
        }
        self.release_deferred(now);
    }

    /// Begins the stop: no handler starts any more, and pending rows are released.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        self.grace_ends = Some(now + self.grace);
        self.cx.reporter.set_phase("stopping", None);
        self.claims.release_pending();
    }

    pub(super) fn handle_result(&mut self, result: RequestResult) {
        self.poller.polling.request_ended(result.wrote(), Instant::now());
        let (poller, claims, settler) = (&mut self.poller, &mut self.claims, &mut self.settler);
        match result {
            RequestResult::Polled(poll, result) => poller.handle_poll(*poll, result, claims, settler),
            RequestResult::Settled(batch, answer, begun) => {
                settler.handle_settled(&batch, answer, begun, claims)
            }
            RequestResult::Renewed(batch, answer, until) => {
                settler.handle_renewal(&batch, answer, until, claims)
            }
            RequestResult::Confirmed(claim, answer) => {
                poller.handle_confirmation(claim, answer, claims, &mut settler.outage)
            }
            RequestResult::Checked(ids, answer) => {
                claims.handle_checked(&self.cx.rule, ids, answer, &mut settler.outage)
            }
        }
        if self.grace_ends.is_some() {
            // A poll that was in flight at the stop may have claimed rows.
            self.claims.release_pending();
        }
    }

    /// Publishes phase, reason and row counts.
    pub(super) fn publish_status(&self, asking: bool) {
        self.cx.reporter.set_row_counts(
            self.claims.rows.len(),
            self.claims.rows.working(),
            self.claims.deferred.len(),
        );
        self.cx.reporter.set_oldest_claim(self.claims.rows.oldest_claim());
        let now = Instant::now();
        let outage = self.settler.outage.failure().or(self.poller.outage.failure());
        let (phase, reason) = if self.grace_ends.is_some() {
            ("stopping", None)
        } else if let Some((reason, until)) = &self.poller.parked
            && *until > now
        {
            ("parked", Some(reason.clone()))
        } else if let Some(failure) = outage {
            ("waiting", Some(failure.to_string()))
        } else if let Some(failure) = self.poller.plan_outage.failure() {
            ("plan_failed", Some(failure.reason.clone()))
        } else if self.paused {
            ("paused", None)
        } else {
            let phase = if self.claims.rows.is_empty() && !asking { "idle" } else { "working" };
            (phase, self.claims.deferred.refusal().map(str::to_owned))
        };
        let until = self.settler.outage.until(now).or(self.poller.outage.until(now));
        let retry_in = until.map_or(Duration::ZERO, |until| until - now);
        let outage = outage.filter(|_| phase == "waiting");
        self.service.show_outage(&self.cx.rule.name, outage.map(|failure| (failure.clone(), retry_in)));
        self.cx.reporter.set_phase(phase, reason);
    }
}
