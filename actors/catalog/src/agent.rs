//! Agent of one rule: finds candidates, claims them, runs handlers and settles the rows. A single
//! loop waits for everything, so that leases are renewed while handlers run, and handlers run while
//! the server is unavailable.

mod claims;
mod confirm;
mod describe;
mod next;
mod outage;
mod poll_request;
mod poll_state;
mod poller;
mod request;
mod rule_cx;
mod settler;
#[cfg(test)]
mod tests;
mod unconfirmed_claim;
mod unknown_settlements;

use std::{rc::Rc, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_catalog_rules::{definition::Guard, rule::Rule};
use orchestrator_supervise::StopToken;
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep_until},
};

pub(crate) use self::confirm::read;
use self::{
    claims::Claims,
    outage::Outage,
    poll_state::PollState,
    poller::Poller,
    request::{HandlerRun, Next, RequestResult},
    rule_cx::RuleCx,
    settler::Settler,
};
use crate::{
    config::RuleConfig,
    edge::handlers::Planner,
    handler::Handler,
    polling::{PollIntervals, Polling},
    row_question::RowQuestion,
    service::Service,
    state_change::StateChange,
    status::StatusReporter,
    wall_clock::WallClock,
};

/// Time for which a stop waits for the server's answers once no handler runs. Rows that are not released by
/// then are left to their leases.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Context that the agents of one catalog share.
#[derive(Debug, Clone)]
pub(crate) struct AgentContext<S> {
    /// Access to the catalog.
    pub service: S,
    /// Clock for leases.
    pub clock: WallClock,
    /// Prefix of claim tokens.
    pub agent: Arc<str>,
    /// Maximum number of rows of one write.
    pub max_batch: usize,
    /// Enables conditional reads (`If-None-Match`).
    pub cache: bool,
    pub intervals: PollIntervals,
    /// Factor of the delays after failed requests.
    pub backoff_factor: f64,
    /// Time that running handlers get after a stop.
    pub grace: Duration,
}

/// Input of an agent from notices and from operators.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Triggers {
    /// Number of change notices of the server; a new value means that there may be work.
    pub notices: u64,
    /// Notices arrive.
    pub notices_up: bool,
    /// Number of polls requested by operators, which also end parking and backoff.
    pub forced_polls: u64,
    /// No rows are claimed while set.
    pub paused: bool,
}

/// Agent of one rule. It sends what `poller`, `claims` and `settler` decide on, runs the handlers, and stops.
pub(crate) struct Agent<S, H> {
    cx: Rc<RuleCx>,
    service: S,
    handler: Rc<H>,
    poller: Poller,
    claims: Claims,
    settler: Settler,
    last_was_write: bool,
    paused: bool,
    retiring: bool,
    /// Time that running handlers get after a stop.
    grace: Duration,
    /// Time at which running handlers are cancelled; set by a stop.
    grace_ends: Option<Instant>,
    /// Requests the stop.
    stop: StopToken,
}

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    pub(crate) fn new(
        config: &RuleConfig,
        rule: Rule,
        context: AgentContext<S>,
        handler: H,
        reporter: StatusReporter,
        retry_max: Duration,
    ) -> Self {
        let changes = |query: String, update: String, guarded| {
            let change = StateChange::new(query, update, guarded);
            if context.cache { change } else { change.without_cache() }
        };
        let now = context.clock.now();
        let candidates = changes(rule.query(now, 0), rule.update().to_owned(), rule.guard == Guard::IfMatch);
        let held_rows = rule.held_query().map(|query| changes(query, rule.take_over(), false));
        let AgentContext { service, clock, agent, max_batch, intervals, backoff_factor, grace, .. } = context;
        let cx = Rc::new(RuleCx { rule, config: config.clone(), clock, agent, retry_max, reporter });
        let outage = || Outage::new(backoff_factor, retry_max);
        let state = PollState::new(candidates, held_rows);
        Self {
            service,
            handler: Rc::new(handler),
            poller: Poller::new(cx.clone(), Polling::new(intervals), state, outage()),
            claims: Claims::new(cx.clone()),
            settler: Settler::new(cx.clone(), max_batch, outage()),
            cx,
            last_was_write: false,
            paused: false,
            retiring: false,
            grace,
            grace_ends: None,
            stop: StopToken::new(),
        }
    }

    #[must_use]
    pub(crate) fn planner(mut self, planner: Option<Planner>) -> Self {
        self.poller.planner = planner.map(Rc::new);
        self
    }

    /// Runs until `stop` (running handlers get the grace period, other rows are released) or until
    /// `retire` (all claimed rows are finished).
    pub(crate) async fn run(
        mut self,
        mut triggers: watch::Receiver<Triggers>,
        mut questions: broadcast::Receiver<RowQuestion>,
        stop: StopToken,
        retire: StopToken,
    ) {
        self.stop = stop.clone();
        let mut applied = Triggers::default();
        let mut handler_runs: FuturesUnordered<HandlerRun> = FuturesUnordered::new();
        let mut pending_request: Option<LocalBoxFuture<'static, RequestResult>> = None;
        let mut only_server_since = None;
        loop {
            self.apply_triggers(*triggers.borrow_and_update(), &mut applied);
            self.run_handlers(&mut handler_runs);
            let now = Instant::now();
            let mut deadline = self.next_deadline();
            if pending_request.is_none() {
                match self.next_request(now) {
                    Next::Request(next) => {
                        self.poller.polling.request_started();
                        pending_request = Some(next);
                    }
                    Next::Wait(until) => deadline = [deadline, until].into_iter().flatten().min(),
                    Next::Finished => return,
                }
            }
            let only_server = self.grace_ends.is_some() && handler_runs.is_empty();
            only_server_since = only_server.then(|| only_server_since.unwrap_or(now));
            let give_up = only_server_since.map(|since| since + RELEASE_TIMEOUT);
            self.publish_status(pending_request.is_some());
            tokio::select! {
                biased;
                result = ended(&mut pending_request) => {
                    pending_request = None;
                    self.handle_result(result);
                }
                Some((id, outcome, span)) = handler_runs.next(), if !handler_runs.is_empty() => self.claims.handler_finished(id, outcome, span),
                () = stop.cancelled(), if self.grace_ends.is_none() => self.begin_stop(Instant::now()),
                () = retire.cancelled(), if !self.retiring => self.retiring = true,
                _ = triggers.changed(), if self.grace_ends.is_none() => {}
                Ok(question) = questions.recv() => self.answer(&question),
                () = sleep_until(give_up.unwrap_or(now)), if give_up.is_some() => return self.give_up(),
                () = sleep_until(deadline.unwrap_or(now)), if deadline.is_some() => self.handle_deadlines(Instant::now()),
            }
        }
    }
}

impl<S, H> Agent<S, H> {
    /// Reports the rows that a stop could not release.
    fn give_up(&self) {
        let (rule, rows) = (&self.cx.rule.name, self.claims.rows.len());
        tracing::warn!(rule, rows, "the server does not answer: rows are left to their leases");
    }
}

/// Waits for the pending request; never returns without one.
async fn ended(pending_request: &mut Option<LocalBoxFuture<'static, RequestResult>>) -> RequestResult {
    match pending_request {
        Some(pending_request) => pending_request.await,
        None => std::future::pending().await,
    }
}
