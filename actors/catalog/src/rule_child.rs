//! The child of one rule: has an agent at work, and agents of former versions of the rule until they have finished what they claimed.

use std::{rc::Rc, time::Duration};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_supervise::{ChildSpec, Factory, Fault, Restart, Shutdown, StartCx, StopToken};
use tokio::sync::watch;

use crate::{
    agent::{Agent, AgentContext, Call},
    assignment::{Assignment, Orders},
    config::RuleConfig,
    handler_config::Actors,
    rule::Rule,
    service::Service,
    status::{Board, Status},
};

/// For rows to be given back after the grace period.
const STOP: Duration = Duration::from_secs(5);

/// A rule's child as the poller sees it.
#[derive(Debug)]
pub(crate) struct RuleHandle {
    pub(crate) config: RuleConfig,
    pub(crate) assignment: Assignment,
    pub(crate) status: Status,
}

/// Makes the children of a catalog's rules.
#[derive(Debug, Clone)]
pub(crate) struct RuleMaker<S> {
    pub(crate) context: AgentContext<S>,
    pub(crate) actors: Actors,
}

impl<S: Service + Clone + Send + 'static> RuleMaker<S> {
    /// A child for this rule. It ends for good once it has no rule and nothing in hand.
    pub(crate) fn make(&self, config: &RuleConfig) -> (RuleHandle, ChildSpec) {
        let assignment = Assignment::new(config.clone());
        let handle =
            RuleHandle { config: config.clone(), assignment: assignment.clone(), status: Status::default() };
        let (maker, status, name) = (self.clone(), handle.status.clone(), config.name.clone());
        let task = Factory::task(move |cx: StartCx| {
            let board = Board::new(&name, &status, &cx.vitals);
            RuleChild { maker: maker.clone(), assignment: assignment.clone(), board, cx }.run()
        });
        let spec = ChildSpec::worker(ChildSpec::id_of(&config.name), task)
            .label(config.name.clone())
            .restart(Restart::Transient)
            .shutdown(Shutdown::After(self.context.grace + STOP))
            .pausable();
        (handle, spec)
    }
}

/// One incarnation.
struct RuleChild<S> {
    maker: RuleMaker<S>,
    assignment: Assignment,
    board: Board,
    cx: StartCx,
}

impl<S: Service + Clone + 'static> RuleChild<S> {
    /// Works until it is asked to stop, or has no rule any more and nothing in hand.
    async fn run(self) -> Result<(), Fault> {
        let mut orders = self.assignment.subscribe();
        let mut agents: FuturesUnordered<LocalBoxFuture<'static, ()>> = FuturesUnordered::new();
        let (mut followed, mut retire) = (None, StopToken::new());
        let calls = watch::Sender::new(self.call(&orders.borrow()));
        loop {
            let stopping = self.cx.stop.is_cancelled();
            let wanted = orders.borrow_and_update().clone();
            calls.send_replace(self.call(&wanted));
            if wanted.config != followed && !stopping {
                retire.cancel();
                retire = StopToken::new();
                if let Some(config) = &wanted.config {
                    agents.extend(self.agent(config, calls.subscribe(), &retire));
                }
                followed = wanted.config;
            }
            if agents.is_empty() && (stopping || followed.is_none() && self.assignment.end()) {
                return Ok(());
            }
            let paused = calls.borrow().paused;
            tokio::select! {
                Some(()) = agents.next(), if !agents.is_empty() => {}
                _ = orders.changed() => {}
                () = self.switched(paused) => {}
                () = self.cx.stop.cancelled(), if !stopping => {}
            }
        }
    }

    fn call(&self, orders: &Orders) -> Call {
        Call { looks: orders.looks, orders: orders.demands, paused: self.cx.vitals.is_paused() }
    }

    /// Waits until an operator pauses, or resumes.
    async fn switched(&self, paused: bool) {
        if paused { self.cx.vitals.wait_resumed().await } else { self.cx.vitals.wait_paused().await }
    }

    /// The agent of a rule; None, told to people, if the rule cannot be followed.
    fn agent(
        &self,
        config: &RuleConfig,
        calls: watch::Receiver<Call>,
        retire: &StopToken,
    ) -> Option<LocalBoxFuture<'static, ()>> {
        match self.employ(config) {
            Ok(agent) => Some(Box::pin(agent.run(calls, self.cx.stop.clone(), retire.clone()))),
            // Checked when it was read; an actor that is named may be missing all the same.
            Err(reason) => {
                tracing::error!(rule = config.name, "the rule cannot be followed: {reason}");
                self.board.phase("parked", Some(reason));
                None
            }
        }
    }

    fn employ(&self, config: &RuleConfig) -> Result<Agent<S, crate::edge::handlers::AnyHandler>, String> {
        let rule = Rule::new(config).map_err(|errors| errors.join("; "))?;
        for warning in rule.warnings() {
            tracing::warn!(rule = rule.name, "{warning}");
        }
        let handler = config.handler.handler(&self.maker.actors)?;
        Ok(Agent::new(Rc::new(rule), self.maker.context.clone(), Rc::new(handler), self.board.clone()))
    }
}
