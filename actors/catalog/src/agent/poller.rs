//! Polls for candidates and for expired claims, and what their results mean. Decides when and what to read;
//! the agent sends it.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use orchestrator_catalog_rules::path;
use orchestrator_supervise::StopToken;
use orchestrator_text::sanitize;
use tokio::time::Instant;

use super::{
    claims::Claims,
    outage::Outage,
    poll_request::{MARGIN, Poll, Target, Unclaimed},
    poll_state::PollState,
    rule_cx::RuleCx,
    settler::Settler,
    unconfirmed_claim::UnconfirmedClaim,
};
use crate::{
    edge::handlers::Planner,
    polling::Polling,
    service::RequestError,
    state_change::{ChangeResult, Planned},
    status::RuleCounter,
};

/// Delay before a parked rule tries again: the table may have been changed.
const PARK_DELAY: Duration = Duration::from_secs(300);

/// State of a rule's reads, and its claims with an unknown outcome.
pub(super) struct Poller {
    pub(super) cx: Rc<RuleCx>,
    pub(super) polling: Polling,
    pub(super) state: PollState,
    /// Program that plans the claims; None: all candidates are claimed.
    pub(super) planner: Option<Rc<Planner>>,
    pub(super) outage: Outage,
    /// Failures of the program that plans claims.
    pub(super) plan_outage: Outage,
    /// Reason why nothing is read, and until when.
    pub(super) parked: Option<(String, Instant)>,
    /// Claims whose write had an unknown outcome.
    pub(super) unconfirmed: VecDeque<UnconfirmedClaim>,
}

impl Poller {
    pub(super) fn new(cx: Rc<RuleCx>, polling: Polling, state: PollState, outage: Outage) -> Self {
        Self {
            polling,
            state,
            planner: None,
            outage,
            plan_outage: Outage::new(1.0, cx.retry_max),
            parked: None,
            unconfirmed: VecDeque::new(),
            cx,
        }
    }

    /// Ends parking and all delays.
    pub(super) fn force(&mut self) {
        self.parked = None;
        self.outage.reset();
        self.plan_outage.reset();
        self.state.poll_unconditionally();
    }

    /// End of the parking.
    pub(super) fn parked_until(&self, now: Instant) -> Option<Instant> {
        self.parked.as_ref().map(|(_, until)| *until).filter(|until| *until > now)
    }

    /// Tells whether a poll for candidates is due, and nothing forbids it.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let wanted = self.state.wanted || self.polling.is_due(now);
        wanted && self.parked_until(now).is_none() && self.plan_outage.until(now).is_none()
    }

    /// Begins a poll, which claims at most `batch` rows, unless one of this target is in flight. `stop`
    /// cancels it.
    pub(super) fn begin(
        &mut self,
        target: Target,
        now: Instant,
        claims: &Claims,
        batch: usize,
        stop: StopToken,
    ) -> Option<Poll> {
        let (rule, time) = (&self.cx.rule, self.cx.clock.now());
        let slot = match target {
            Target::Candidates => &mut self.state.candidates,
            Target::HeldRows => &mut self.state.held_rows,
        };
        let mut change = slot.take()?;
        let mut idle = None;
        match target {
            Target::Candidates => {
                change.set_query(rule.query(time, claims.deferred.len()));
                idle = self.state.idle.take();
                self.state.wanted = false;
                self.polling.polled(now);
            }
            Target::HeldRows => {
                let every = rule.lease().unwrap_or_default() / 4;
                let every = every.clamp(Duration::from_millis(200), Duration::from_secs(30));
                self.state.held_rows_from = now + every;
                self.state.next_lease_end = None;
            }
        }
        let deferred = claims.deferred.keys().map(str::to_owned);
        Some(Poll {
            target,
            idle,
            token: if rule.has_token() { self.cx.new_token() } else { "".into() },
            max_rows: claims.capacity().saturating_sub(claims.rows.len()).min(batch).max(1),
            excluded: claims.rows.keys().iter().cloned().chain(deferred).collect(),
            started: now,
            now: time,
            dry_run: self.cx.config.dry_run,
            priority: self.cx.config.priority,
            planner: self.planner.clone(),
            stop,
            change,
            unclaimed: Unclaimed::default(),
        })
    }

    /// Handles the result of a poll.
    pub(super) fn handle_poll(
        &mut self,
        poll: Poll,
        result: ChangeResult,
        claims: &mut Claims,
        settler: &mut Settler,
    ) {
        let (target, now, unclaimed) = (poll.target, Instant::now(), &poll.unclaimed);
        self.record(&poll, &result, claims);
        match result {
            ChangeResult::Unmodified { etag } => self.state.idle = self.cx.rule.is_timeless().then_some(etag),
            ChangeResult::Empty { etag } if target == Target::Candidates => {
                self.handle_empty(etag, unclaimed)
            }
            ChangeResult::Empty { .. } => {}
            ChangeResult::Changed(change) => {
                self.cx.reporter.count(RuleCounter::PassedOver, change.passed_over.len());
                // Skipped rows may still be candidates.
                self.state.wanted = true;
                if change.changed.is_empty() {
                    self.polling.claim_lost(fastrand::f64());
                    self.outage.conflicted(now);
                } else {
                    self.polling.claimed();
                }
                self.handle_claimed(change.changed, &poll, claims);
            }
            ChangeResult::Unknown { plan, reason } => {
                settler.outage.failed(reason.clone(), now);
                self.handle_unknown_claim(plan, &reason, &poll, now);
            }
            ChangeResult::Failed(error) => self.handle_error(error, target, now, settler),
        }
        match target {
            Target::Candidates => self.state.candidates = Some(poll.change),
            Target::HeldRows => self.state.held_rows = Some(poll.change),
        }
        match poll.unclaimed.failure {
            Some(reason) => {
                self.state.poll_unconditionally();
                self.plan_outage.failed(reason, now);
            }
            None if target == Target::Candidates => self.plan_outage.reset(),
            None => {}
        }
    }

    /// Records what a poll read, whatever it claimed.
    fn record(&mut self, poll: &Poll, result: &ChangeResult, claims: &mut Claims) {
        let (cx, unclaimed) = (&self.cx, &poll.unclaimed);
        let (now, is_candidates) = (Instant::now(), poll.target == Target::Candidates);
        self.state.last_etags[poll.target as usize] = poll.change.last_etag().map(str::to_owned);
        self.state.cached_bytes[poll.target as usize] = poll.change.cached_bytes();
        cx.reporter.set_cached_bytes(self.state.cached_bytes.iter().sum());
        if !is_candidates {
            let wait = |at| now + cx.clock.until(path::saturating_add(at, MARGIN));
            self.state.next_lease_end = unclaimed.next_lease_end.map(wait);
        }
        for text in &unclaimed.errors {
            cx.reporter.report_unsettled(text.clone());
        }
        for key in unclaimed.faulty.iter().chain(&unclaimed.left) {
            claims.deferred.failed(key, now, fastrand::f64());
        }
        if matches!(result, ChangeResult::Failed(_)) {
            return;
        }
        if is_candidates {
            let claimed = if let ChangeResult::Changed(change) = result { change.changed.len() } else { 0 };
            cx.reporter.set_candidates(unclaimed.found.saturating_sub(unclaimed.excluded + claimed));
        }
        if poll.dry_run && is_candidates && matches!(result, ChangeResult::Empty { .. }) {
            cx.reporter.set_would_claim(unclaimed.would_claim.clone());
        }
        self.outage.reset();
        self.parked = None;
        cx.reporter.polled(cx.clock.now());
    }

    /// Handles a poll without anything to claim.
    fn handle_empty(&mut self, etag: Option<String>, unclaimed: &Unclaimed) {
        let settled = unclaimed.excluded == 0 && unclaimed.faulty.is_empty() && unclaimed.left.is_empty();
        if settled && self.cx.rule.is_timeless() {
            self.state.idle = etag;
        }
        if unclaimed.more && !self.cx.config.dry_run {
            self.state.wanted = true;
        }
    }

    /// Adds claimed rows and updates the metrics.
    fn handle_claimed(&self, rows: Vec<Planned>, poll: &Poll, claims: &mut Claims) {
        let cx = &self.cx;
        cx.count_claims(poll.target, rows.len());
        if let Some((row, _)) = rows.last()
            && let Some(made) = row.get("RCT").and_then(|made| path::parse_instant(made.as_str()?))
        {
            let lag = cx.clock.now().duration_since(made);
            cx.reporter.set_lag(Duration::try_from(lag).unwrap_or_default());
        }
        let until = cx.rule.lease().map(|span| poll.started + span);
        for (row, claimed) in rows {
            claims.add(row, claimed, poll.token.clone(), until);
        }
    }

    fn handle_unknown_claim(&mut self, plan: Vec<Planned>, reason: &str, poll: &Poll, now: Instant) {
        self.state.poll_unconditionally();
        let rule = &self.cx.rule;
        if rule.has_token() {
            let claim = UnconfirmedClaim::new(poll.token.clone(), plan, poll.started, poll.target, now);
            self.unconfirmed.push_back(claim);
            return;
        }
        // Without a token the owner cannot be determined: an operator has to look.
        let keys: Vec<_> = plan.iter().map(|(row, _)| rule.id(row).to_string()).collect();
        self.cx.reporter.report_unsettled(format!(
            "the claim of {} = {} may have been written, but its answer is lost ({reason}): check whether the rows are claimed, and \
             give claim.set a column for $token",
            rule.key(),
            keys.join(", ")
        ));
    }

    fn handle_error(&mut self, error: RequestError, target: Target, now: Instant, settler: &mut Settler) {
        match target {
            Target::Candidates => self.state.poll_unconditionally(),
            Target::HeldRows => self.state.last_etags[1] = None,
        }
        match error {
            RequestError::PreconditionFailed => {
                self.cx.reporter.count(RuleCounter::Conflicts, 1);
                self.polling.claim_lost(fastrand::f64());
                self.outage.conflicted(now);
            }
            RequestError::Aborted => {
                self.polling.claim_lost(fastrand::f64());
                self.outage.aborted(now);
            }
            RequestError::Unavailable(reason) | RequestError::OutcomeUnknown(reason) => {
                self.outage.failed(reason, now)
            }
            RequestError::PayloadTooLarge => settler.reduce_batch(now),
            RequestError::Unauthorized(reason) => self.outage.denied(reason, now),
            RequestError::Rejected(reason) | RequestError::NotFound(reason) => {
                let reason = sanitize(reason);
                tracing::error!(rule = self.cx.rule.name, reason, "the rule is parked");
                self.parked = Some((reason, now + PARK_DELAY.min(self.cx.retry_max)));
            }
        }
    }
}
