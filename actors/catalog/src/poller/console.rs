//! Console requests of operators.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use orchestrator_supervise::{
    Answer, ChildCx, ChildSpec, Command, ConsoleError, ConsoleReply, ConsoleRequest, Handle, Origin, State,
    Vitals,
};
use serde_json::{Value, json};

use super::CatalogPoller;
use crate::{service::Service, status::RuleStatus};

const VERBS: &str = "status, run-once, pause, resume";

impl<S: Service + Clone + Unpin + Send + 'static> CatalogPoller<S> {
    fn status(&self) -> Value {
        let notices = self.notices.state();
        json!({
            "catalog": self.config.name,
            "base": self.config.base,
            "agent": self.config.agent(),
            "notices": { "up": notices.is_up, "count": notices.count, "since_secs": notices.since.elapsed().as_secs() },
            "paused": self.paused(),
            "rules": self.statuses(),
        })
    }

    /// Returns the status of each rule. For a child that does not run, state and reason come from
    /// its supervisor.
    fn statuses(&self) -> BTreeMap<String, RuleStatus> {
        let mut statuses = self.rules.statuses();
        for (name, status) in &mut statuses {
            let Some(vitals) = self.cx.tree.vitals(&self.path(&ChildSpec::id_of(name))) else { continue };
            if matches!(vitals.state(), State::Stopped | State::BackingOff) {
                let reason = vitals.last_exit().map(|last| last.reason);
                *status = RuleStatus { phase: vitals.state().name(), reason, ..std::mem::take(status) };
                (status.in_progress, status.working) = (0, 0);
            }
        }
        statuses
    }

    fn child_is(&self, rule: &str, predicate: impl Fn(&Vitals) -> bool) -> bool {
        self.cx.tree.vitals(&self.path(&ChildSpec::id_of(rule))).is_some_and(|vitals| predicate(&vitals))
    }

    /// Returns the paused rules.
    fn paused(&self) -> Vec<String> {
        self.rules.names().into_iter().filter(|rule| self.child_is(rule, Vitals::is_paused)).collect()
    }

    /// Returns the rule named in the arguments, if any.
    fn requested_rule(&self, args: &Value) -> Result<Option<String>, ConsoleError> {
        let Some(name) = args.get("rule").and_then(Value::as_str) else { return Ok(None) };
        let rules = self.rules.names();
        if rules.iter().any(|rule| rule == name) {
            return Ok(Some(name.to_owned()));
        }
        let known = rules.join(", ");
        Err(ConsoleError::BadArguments(format!("there is no rule {name}; there is {known}")))
    }

    /// Pauses or resumes one rule or all of them, like the same command at the path of each child.
    fn set_paused(
        &self,
        args: &Value,
        verb: Command,
        cx: &mut ChildCx<'_, Self>,
    ) -> Result<Answer<Self, ConsoleReply>, ConsoleError> {
        let rules = self.requested_rule(args)?.map_or_else(|| self.rules.names(), |rule| vec![rule]);
        let paths: Vec<_> = rules.iter().map(|rule| self.path(&ChildSpec::id_of(rule))).collect();
        let tree = self.cx.tree.clone();
        let origin =
            Origin { by: self.cx.vitals.path().to_owned(), reason: "asked at the console".to_owned() };
        let commands = async move {
            let commands = paths.iter().map(|path| tree.command(path, verb, &origin));
            join_all(commands).await.into_iter().find_map(Result::err)
        };
        Ok(cx.atomically(commands, |poller, error, _| match error {
            None => Ok(json!({ "paused": poller.paused() })),
            Some(error) => Err(ConsoleError::Refused(error.to_string())),
        }))
    }

    fn run_once(&self, args: &Value) -> ConsoleReply {
        let Some(name) = self.requested_rule(args)? else {
            return Err(ConsoleError::BadArguments("give the rule's name".to_owned()));
        };
        if self.child_is(&name, Vitals::is_paused) {
            return Err(ConsoleError::Refused(format!("{name} is paused: resume it first")));
        }
        if self.child_is(&name, |vitals| vitals.state() == State::Stopped) {
            return Err(ConsoleError::Refused(format!("{name} does not run: start it first")));
        }
        let before = self.rules.statuses().remove(&name).unwrap_or_default();
        if !self.rules.force_poll(&name) {
            return Err(ConsoleError::Refused(format!("{name} has retired meanwhile")));
        }
        tracing::info!(rule = name, "an operator requested a poll");
        Ok(json!({ "rule": name, "before": before }))
    }
}

impl<S: Service + Clone + Unpin + Send + 'static> Handle<ConsoleRequest> for CatalogPoller<S> {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        let answer = match request.verb.as_str() {
            "status" => return Answer::now(Ok(self.status())),
            "run-once" => return Answer::now(self.run_once(&request.args)),
            "pause" => self.set_paused(&request.args, Command::Pause, cx),
            "resume" => self.set_paused(&request.args, Command::Resume, cx),
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        };
        answer.unwrap_or_else(|error| Answer::now(Err(error)))
    }
}
