//! Console requests of operators.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use orchestrator_subsystem::{Answered, ConsoleError, ConsoleReply, Explain, Until, Verbs, route::Each};
use orchestrator_supervise::{ChildCx, ChildSpec, ChildState, Command, Handle, Handled, Origin, State};
use orchestrator_text::sanitize;

use super::CatalogPoller;
use crate::{
    command::InCatalog,
    service::Service,
    status::RuleStatus,
    verbs::{CatalogStatus, NoticeStatus, Pause, PausedRules, PollRequested, Resume, RunOnce, Status},
};

impl<S: Service + Clone + Unpin + Send + 'static> CatalogPoller<S> {
    pub(crate) fn verbs() -> Verbs<Self> {
        Verbs::default()
            .by::<Each, Status>()
            .without_command::<RunOnce>()
            .without_command::<Explain>()
            .by::<InCatalog, Pause>()
            .by::<InCatalog, Resume>()
    }

    /// For a child that does not run, state and reason come from its supervisor.
    fn statuses(&self) -> BTreeMap<String, RuleStatus> {
        let mut statuses = self.rules.statuses();
        for (name, status) in &mut statuses {
            let Some(child) = self.cx.tree.child(&self.path(&ChildSpec::id_of(name))) else { continue };
            if matches!(child.state(), State::Stopped | State::BackingOff) {
                let reason = child.last_exit().map(|last| last.reason);
                *status = RuleStatus { phase: child.state().name().into(), reason, ..std::mem::take(status) };
                (status.in_progress, status.working) = (0, 0);
            }
        }
        statuses
    }

    fn child_is(&self, rule: &str, predicate: impl Fn(&ChildState) -> bool) -> bool {
        self.cx.tree.child(&self.path(&ChildSpec::id_of(rule))).is_some_and(|child| predicate(&child))
    }

    fn paused(&self) -> Vec<String> {
        self.rules.names().into_iter().filter(|rule| self.child_is(rule, ChildState::is_paused)).collect()
    }

    /// Checks that there is a rule `name`.
    fn check_rule(&self, name: &str) -> ConsoleReply<()> {
        let rules = self.rules.names();
        if rules.iter().any(|rule| rule == name) {
            return Ok(());
        }
        let known = rules.join(", ");
        Err(ConsoleError::BadArguments(format!("there is no rule {name}; there is {known}")))
    }

    /// Pauses or resumes one rule or all of them, like the same command at the path of each child.
    fn set_paused(
        &self,
        (rule, reason): (Option<String>, String),
        command: Command,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, ConsoleReply<PausedRules>> {
        if let Some(Err(error)) = rule.as_deref().map(|rule| self.check_rule(rule)) {
            return Handled::now(Err(error));
        }
        let rules = rule.map_or_else(|| self.rules.names(), |rule| vec![rule]);
        let paths: Vec<_> = rules.iter().map(|rule| self.path(&ChildSpec::id_of(rule))).collect();
        let tree = self.cx.tree.clone();
        let origin = Origin { by: self.cx.vitals.path().to_owned(), reason: sanitize(reason.trim()) };
        let commands = async move {
            let commands = paths.iter().map(|path| tree.command(path, command, &origin));
            join_all(commands).await.into_iter().find_map(Result::err)
        };
        cx.atomically(commands, |poller, error, _| match error {
            None => Ok(PausedRules { catalog: poller.config.name.clone(), paused: poller.paused() }),
            Some(error) => Err(ConsoleError::Refused(error.to_string())),
        })
    }

    fn run_once(&self, RunOnce { rule }: RunOnce) -> Answered<RunOnce> {
        self.check_rule(&rule)?;
        if self.child_is(&rule, ChildState::is_paused) {
            return Err(ConsoleError::Refused(format!("{rule} is paused: resume it first")));
        }
        if self.child_is(&rule, |child| child.state() == State::Stopped) {
            return Err(ConsoleError::Refused(format!("{rule} does not run: start it first")));
        }
        let before = self.rules.statuses().remove(&rule).unwrap_or_default();
        if !self.rules.force_poll(&rule) {
            return Err(ConsoleError::Refused(format!("{rule} has retired meanwhile")));
        }
        tracing::info!(rule, "an operator requested a poll");
        Ok(PollRequested { rule, before })
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<Status> for CatalogPoller<S> {
    fn handle(&mut self, _: Status, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Status>> {
        let notices = self.notices.state();
        Handled::now(Ok(CatalogStatus {
            catalog: self.config.name.clone(),
            base: self.config.base.clone(),
            agent: self.config.agent().to_owned(),
            notices: NoticeStatus {
                up: notices.is_up,
                count: notices.count,
                since_secs: notices.since.elapsed().as_secs(),
            },
            paused: self.paused(),
            rules: self.statuses(),
        }))
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<RunOnce> for CatalogPoller<S> {
    fn handle(&mut self, verb: RunOnce, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<RunOnce>> {
        Handled::now(self.run_once(verb))
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<Pause> for CatalogPoller<S> {
    fn handle(&mut self, verb: Pause, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Pause>> {
        let pause = Until::pause(verb.until.as_ref());
        self.set_paused((verb.rule, verb.reason), Command::Pause(pause), cx)
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<Resume> for CatalogPoller<S> {
    fn handle(&mut self, verb: Resume, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Resume>> {
        self.set_paused((verb.rule, verb.reason), Command::Resume, cx)
    }
}
