//! Agent of one rule: finds candidates, claims them, runs handlers and settles the rows. A single
//! loop waits for everything, so that leases are renewed while handlers run, and handlers run while
//! the server is unavailable.

mod confirm;
mod next;
mod outage;
mod poll;
mod poll_request;
mod poll_state;
mod renew;
mod request;
mod settle;
#[cfg(test)]
mod tests;
mod unconfirmed_claim;
mod unknown_settlements;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_supervise::StopToken;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

pub(crate) use self::confirm::read;
use self::{
    outage::Outage,
    poll_state::PollState,
    request::{HandlerRun, Next, RequestResult},
    unconfirmed_claim::UnconfirmedClaim,
};
use crate::{
    claimed_rows::ClaimedRows,
    config::Guard,
    deferred_rows::DeferredRows,
    edge::handlers::Planner,
    handler::Handler,
    polling::{PollIntervals, Polling},
    rule::Rule,
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

/// Agent of one rule.
pub(crate) struct Agent<S, H> {
    rule: Rc<Rule>,
    context: AgentContext<S>,
    /// Longest delay between two attempts, as configured for all links.
    retry_max: Duration,
    handler: Rc<H>,
    planner: Option<Rc<Planner>>,
    reporter: StatusReporter,
    polling: Polling,
    poll_state: PollState,
    rows: ClaimedRows,
    /// Cancels the handler of a lost row.
    cancels: HashMap<u64, StopToken>,
    /// Rows that are not claimed for a while.
    deferred: DeferredRows,
    /// A recurring row was logged, and some row has been deferred ever since.
    recurrence_logged: bool,
    /// Reasons of the rows that are dead once that is written.
    dead_reasons: BTreeMap<u64, String>,
    /// Claims whose write had an unknown outcome.
    unconfirmed: VecDeque<UnconfirmedClaim>,
    /// Rows of the next write. Halved while a rejected row is isolated.
    batch: usize,
    /// Largest write that the server accepts, in rows.
    batch_max: usize,
    last_was_write: bool,
    /// Settlements that are ready before are written together.
    collect_until: Option<Instant>,
    /// Moving average of handlers' durations.
    handler_time: Option<Duration>,
    read_outage: Outage,
    write_outage: Outage,
    /// Failures of the program that plans claims.
    plan_outage: Outage,
    parked: Option<(String, Instant)>,
    paused: bool,
    retiring: bool,
    /// Time at which running handlers are cancelled; set by a stop.
    grace_ends: Option<Instant>,
    /// Requests the stop.
    stop: StopToken,
}

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    pub(crate) fn new(
        rule: Rc<Rule>,
        context: AgentContext<S>,
        handler: Rc<H>,
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
        let (batch, backoff_factor) = (context.max_batch, context.backoff_factor);
        Self {
            polling: Polling::new(context.intervals),
            poll_state: PollState::new(candidates, held_rows),
            deferred: DeferredRows::new(rule.backoff),
            recurrence_logged: false,
            dead_reasons: BTreeMap::new(),
            rule,
            context,
            retry_max,
            handler,
            planner: None,
            reporter,
            rows: ClaimedRows::default(),
            cancels: HashMap::new(),
            unconfirmed: VecDeque::new(),
            batch,
            batch_max: batch,
            last_was_write: false,
            collect_until: None,
            handler_time: None,
            read_outage: Outage::new(backoff_factor, retry_max),
            write_outage: Outage::new(backoff_factor, retry_max),
            plan_outage: Outage::new(1.0, retry_max),
            parked: None,
            paused: false,
            retiring: false,
            grace_ends: None,
            stop: StopToken::new(),
        }
    }

    #[must_use]
    pub(crate) fn planner(self, planner: Option<Planner>) -> Self {
        Self { planner: planner.map(Rc::new), ..self }
    }

    /// Runs until `stop` (running handlers get the grace period, other rows are released) or until
    /// `retire` (all claimed rows are finished).
    pub(crate) async fn run(
        mut self,
        mut triggers: watch::Receiver<Triggers>,
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
                        self.polling.request_started();
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
                Some((id, outcome, span)) = handler_runs.next(), if !handler_runs.is_empty() => self.handler_finished(id, outcome, span),
                () = stop.cancelled(), if self.grace_ends.is_none() => self.begin_stop(Instant::now()),
                () = retire.cancelled(), if !self.retiring => self.retiring = true,
                _ = triggers.changed(), if self.grace_ends.is_none() => {}
                () = sleep_until(give_up.unwrap_or(now)), if give_up.is_some() => return self.give_up(),
                () = sleep_until(deadline.unwrap_or(now)), if deadline.is_some() => self.handle_deadlines(Instant::now()),
            }
        }
    }
}

impl<S, H> Agent<S, H> {
    /// Reports the rows that a stop could not release.
    fn give_up(&self) {
        let (rule, rows) = (&self.rule.name, self.rows.len());
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
