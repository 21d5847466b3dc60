//! Child of one rule. It runs an agent, and agents of former versions of the rule until their rows
//! are finished.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use orchestrator_catalog_rules::rule::Rule;
use orchestrator_exchange::Exchange;
use orchestrator_supervise::{ChildSpec, Factory, Fault, Restart, Shutdown, StartCx, StopToken};
use tokio::sync::watch;

use crate::{
    agent::{Agent, AgentContext, RELEASE_TIMEOUT, Triggers},
    assignment::{Assignment, Commands},
    config::RuleConfig,
    edge::notices::{NoticeState, Notices},
    handler_config::HandlerKind,
    notify_agent::{self, NotifyAgent},
    service::Service,
    status::{Status, StatusReporter},
};

/// Time to release rows after the grace period, so that the child ends by itself.
const STOP: Duration = RELEASE_TIMEOUT.saturating_add(Duration::from_millis(500));

/// A rule's child as the poller sees it.
#[derive(Debug)]
pub(crate) struct RuleHandle {
    pub(crate) config: RuleConfig,
    pub(crate) assignment: Assignment,
    pub(crate) status: Status,
}

/// Factory of the children of a catalog's rules.
#[derive(Debug, Clone)]
pub(crate) struct RuleChildFactory<S> {
    pub(crate) context: AgentContext<S>,
    /// Name of the catalog.
    pub(crate) catalog: String,
    /// Address of the catalog, as its link names it.
    pub(crate) server: Arc<str>,
    pub(crate) exchange: Exchange,
    pub(crate) notices: Notices,
}

impl<S: Service + Clone + Send + 'static> RuleChildFactory<S> {
    /// The child ends for good once it has neither a rule nor claimed rows.
    pub(crate) fn create(&self, config: &RuleConfig) -> (RuleHandle, ChildSpec) {
        let assignment = Assignment::new(config.clone());
        let handle =
            RuleHandle { config: config.clone(), assignment: assignment.clone(), status: Status::default() };
        let (factory, status, name) = (self.clone(), handle.status.clone(), config.name.clone());
        let task = Factory::task(move |cx: StartCx| {
            let reporter = StatusReporter::new(
                &name,
                &factory.server,
                &status,
                &cx.child,
                &factory.exchange.hook_events,
            );
            RuleChild { factory: factory.clone(), assignment: assignment.clone(), reporter, cx }.run()
        });
        let spec = ChildSpec::worker(ChildSpec::id_of(&config.name), task)
            .label(config.name.clone())
            .restart(Restart::Transient)
            .shutdown(Shutdown::After(self.context.grace + STOP))
            .pausable();
        let queue = self.exchange.jobs.iter().filter(|_| config.handler.kind == HandlerKind::Queue);
        let spec = queue.fold(spec, |spec, queue| spec.waits_for(&queue.offered));
        (handle, spec)
    }
}

/// One incarnation of the child.
struct RuleChild<S> {
    factory: RuleChildFactory<S>,
    assignment: Assignment,
    reporter: StatusReporter,
    cx: StartCx,
}

impl<S: Service + Clone + 'static> RuleChild<S> {
    /// Runs until a stop, or until it has neither a rule nor claimed rows.
    async fn run(self) -> Result<(), Fault> {
        let mut commands = self.assignment.subscribe();
        let mut notices = self.factory.notices.clone();
        let mut agents: FuturesUnordered<LocalBoxFuture<'static, ()>> = FuturesUnordered::new();
        let (mut active_config, mut retire) = (None, StopToken::new());
        let triggers = watch::Sender::new(self.triggers(&commands.borrow(), notices.state()));
        loop {
            let stopping = self.cx.stop.is_cancelled();
            let wanted = commands.borrow_and_update().clone();
            triggers.send_replace(self.triggers(&wanted, notices.mark_seen()));
            if wanted.config != active_config && !stopping {
                retire.cancel();
                retire = StopToken::new();
                if let Some(config) = &wanted.config {
                    self.reporter.expect(config);
                    agents.extend(self.agent(config, triggers.subscribe(), &retire));
                }
                active_config = wanted.config;
            }
            if agents.is_empty() && (stopping || active_config.is_none() && self.assignment.end()) {
                return Ok(());
            }
            let paused = triggers.borrow().paused;
            tokio::select! {
                Some(()) = agents.next(), if !agents.is_empty() => {}
                _ = commands.changed() => {}
                _ = notices.changed() => {}
                () = self.pause_changed(paused) => {}
                () = self.cx.stop.cancelled(), if !stopping => {}
            }
        }
    }

    fn triggers(&self, commands: &Commands, notices: NoticeState) -> Triggers {
        Triggers {
            notices: notices.count,
            notices_up: notices.is_up,
            forced_polls: commands.forced_polls,
            paused: self.cx.child.is_paused(),
        }
    }

    /// Waits until an operator pauses or resumes the child.
    async fn pause_changed(&self, paused: bool) {
        if paused { self.cx.child.wait_resumed().await } else { self.cx.child.wait_paused().await }
    }

    /// Starts the agent of a rule. None: the rule is unusable, which its status says.
    fn agent(
        &self,
        config: &RuleConfig,
        triggers: watch::Receiver<Triggers>,
        retire: &StopToken,
    ) -> Option<LocalBoxFuture<'static, ()>> {
        match self.create_agent(config, triggers, retire) {
            Ok(agent) => Some(agent),
            // The configuration was checked when it was read, but a file or the queue may be
            // missing.
            Err(reason) => {
                tracing::error!(rule = config.name, "the rule cannot be used: {reason}");
                self.reporter.set_phase("parked", Some(reason));
                None
            }
        }
    }

    fn owner(&self, rule: &RuleConfig) -> Arc<str> {
        format!("catalog.{}.{}", self.factory.catalog, rule.name).into()
    }

    fn create_agent(
        &self,
        config: &RuleConfig,
        triggers: watch::Receiver<Triggers>,
        retire: &StopToken,
    ) -> Result<LocalBoxFuture<'static, ()>, String> {
        let handler = config.handler.handler(self.owner(config), self.factory.exchange.jobs.as_ref())?;
        let (context, reporter) = (self.factory.context.clone(), self.reporter.clone());
        let (stop, retire) = (self.cx.stop.clone(), retire.clone());
        if config.notify_only {
            if let Some(problem) = notify_agent::problems(config).into_iter().next() {
                return Err(problem);
            }
            let agent = NotifyAgent::new(config, handler, reporter, context.intervals, context.grace);
            return Ok(Box::pin(agent.run(triggers, stop, retire)));
        }
        let rule = Rule::new(&config.definition()).map_err(|errors| errors.join("; "))?;
        for warning in rule.warnings() {
            tracing::warn!(rule = rule.name, "{warning}");
        }
        let planner = config.plan.planner(&config.name)?;
        let retry_max = self.cx.vitals.link_retry_max();
        let agent = Agent::new(config, rule, context, handler, reporter, retry_max);
        let questions = self.assignment.questions();
        Ok(Box::pin(agent.planner(planner).run(triggers, questions, stop, retire)))
    }
}
