//! One rule at work: looks for candidates, claims them, has them worked on, and settles them. Everything that waits is waited for in
//! one place, so that leases are renewed while handlers work and handlers work while the server is away.

mod adopt;
mod look;
mod looks;
mod next;
mod order;
mod orphan;
mod outage;
mod renew;
mod report;
mod settle;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
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

use self::{
    looks::Looks,
    orphan::Orphan,
    outage::Outage,
    report::{Next, Report, Work},
};
use crate::{
    config::Guard, hand::Hand, handling::Handler, left_alone::LeftAlone, rule::Rule, service::Service,
    state_change::StateChange, status::Board, wall::Wall,
};

/// Context that the agents of one catalog share.
#[derive(Debug, Clone)]
pub struct AgentContext<S> {
    /// The catalog.
    pub service: S,
    /// The clock of leases.
    pub wall: Wall,
    /// Prefix of claim tokens.
    pub agent: Arc<str>,
    /// Most rows of one write.
    pub max_batch: usize,
    /// Keeps answers with their ETags.
    pub cache: bool,
    /// Time that handlers have to finish after the stop.
    pub grace: Duration,
}

/// What a rule is told from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call {
    /// Grows when there may be work.
    pub looks: u64,
    /// Grows when an operator wants it to look, whatever keeps it from it.
    pub orders: u64,
    /// Is it paused?
    pub paused: bool,
}

/// One rule at work.
pub struct Agent<S, H> {
    rule: Rc<Rule>,
    context: AgentContext<S>,
    handler: Rc<H>,
    board: Board,
    looks: Looks,
    hand: Hand,
    /// Ends a handler whose row is lost.
    cancels: HashMap<u64, StopToken>,
    /// Rows that failed, or were candidates again right after their end.
    left_alone: LeftAlone,
    /// The log has been told of such a candidate, and there has been none since that is left alone.
    recurrence_told: bool,
    /// Claims of which it is not known whether they were written.
    orphans: VecDeque<Orphan>,
    /// Settlements that the server tells nothing of, though they may have been done before.
    to_check: Vec<u64>,
    /// Rows that are written at once now; fewer while one of many is looked for that the server refuses.
    batch: usize,
    /// Rows that the server takes at once.
    largest: usize,
    last_was_write: bool,
    /// Durations of handlers.
    handling: Option<Duration>,
    reading: Outage,
    writing: Outage,
    parked: Option<(String, Instant)>,
    paused: bool,
    retired: bool,
    /// When handlers are ended, once it is asked to stop.
    grace_ends: Option<Instant>,
    /// Asks it to stop.
    stop: StopToken,
}

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// A rule that has not looked yet.
    pub fn new(rule: Rc<Rule>, context: AgentContext<S>, handler: Rc<H>, board: Board) -> Self {
        let changes = |query: String, update: String, guarded| {
            let change = StateChange::new(query, update, guarded);
            if context.cache { change } else { change.without_cache() }
        };
        let now = context.wall.now();
        let candidates = changes(rule.query(now, 0), rule.update().to_owned(), rule.guard == Guard::IfMatch);
        let others = rule.held_query().map(|query| changes(query, rule.take_over(), false));
        let batch = context.max_batch;
        Self {
            looks: Looks::new(candidates, others),
            left_alone: LeftAlone::new(rule.backoff),
            recurrence_told: false,
            rule,
            context,
            handler,
            board,
            hand: Hand::default(),
            cancels: HashMap::new(),
            orphans: VecDeque::new(),
            to_check: Vec::new(),
            batch,
            largest: batch,
            last_was_write: false,
            handling: None,
            reading: Outage::default(),
            writing: Outage::default(),
            parked: None,
            paused: false,
            retired: false,
            grace_ends: None,
            stop: StopToken::new(),
        }
    }

    /// Works until it is asked to stop (what is in hand is finished within the grace period, or released), or to retire (what is in
    /// hand is finished).
    pub async fn run(mut self, mut calls: watch::Receiver<Call>, stop: StopToken, retire: StopToken) {
        self.stop = stop.clone();
        let mut heard = Call::default();
        let mut working: FuturesUnordered<Work> = FuturesUnordered::new();
        let mut errand: Option<LocalBoxFuture<'static, Report>> = None;
        loop {
            self.obey(*calls.borrow_and_update(), &mut heard);
            self.work(&mut working);
            let now = Instant::now();
            let mut wake = self.urgent();
            if errand.is_none() {
                match self.next(now) {
                    Next::Errand(next) => errand = Some(next),
                    Next::Wait(until) => wake = [wake, until].into_iter().flatten().min(),
                    Next::Finished => return,
                }
            }
            self.show(errand.is_some());
            tokio::select! {
                biased;
                report = ended(&mut errand) => {
                    errand = None;
                    self.heard(report);
                }
                Some((id, verdict, span)) = working.next(), if !working.is_empty() => self.worked(id, verdict, span),
                () = stop.cancelled(), if self.grace_ends.is_none() => self.stop(Instant::now()),
                () = retire.cancelled(), if !self.retired => self.retired = true,
                _ = calls.changed(), if self.grace_ends.is_none() => {}
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => self.wake(Instant::now()),
            }
        }
    }
}

/// Waits for the errand that is under way, if one is.
async fn ended(errand: &mut Option<LocalBoxFuture<'static, Report>>) -> Report {
    match errand {
        Some(errand) => errand.await,
        None => std::future::pending().await,
    }
}
