//! What operators ask of a poller.

use orchestrator_supervise::{Answer, ChildCx, ConsoleError, ConsoleReply, ConsoleRequest, Handle};
use serde_json::{Value, json};

use super::CatalogPoller;
use crate::service::Service;

const VERBS: &str = "status, run-once, pause, resume";

impl<S: Service + Clone + Unpin + 'static> CatalogPoller<S> {
    fn status(&self) -> Value {
        let notices = self.notices.heard();
        json!({
            "catalog": self.config.name,
            "base": self.config.base,
            "agent": &*self.house.agent,
            "notices": { "there": notices.is_up, "count": notices.count, "since_secs": notices.since.elapsed().as_secs() },
            "paused": &*self.desk.paused.lock(),
            "rules": self.desk.statuses.all(),
        })
    }

    /// The rule that is meant.
    fn meant(&self, args: &Value) -> Result<Option<String>, ConsoleError> {
        let rules = self.rules.borrow();
        let Some(name) = args.get("rule").and_then(Value::as_str) else { return Ok(None) };
        if rules.contains_key(name) {
            return Ok(Some(name.to_owned()));
        }
        let known = rules.keys().cloned().collect::<Vec<_>>().join(", ");
        Err(ConsoleError::BadArguments(format!("there is no rule {name}; there is {known}")))
    }

    /// A rule, or all of them, claims nothing until it is resumed; what it has claimed is finished.
    fn pause(&self, args: &Value, pause: bool) -> ConsoleReply {
        let meant = self.meant(args)?;
        let mut paused = self.desk.paused.lock();
        for (name, running) in &*self.rules.borrow() {
            if meant.as_ref().is_some_and(|meant| meant != name) {
                continue;
            }
            if pause {
                paused.insert(name.clone());
            } else {
                paused.remove(name);
            }
            running.calls.send_modify(|call| call.paused = pause);
            tracing::info!(rule = name, pause, "claims switched");
        }
        Ok(json!({ "paused": &*paused }))
    }

    fn run_once(&self, args: &Value) -> ConsoleReply {
        let Some(name) = self.meant(args)? else {
            return Err(ConsoleError::BadArguments("give the rule's name".to_owned()));
        };
        if self.desk.paused.lock().contains(&name) {
            return Err(ConsoleError::Refused(format!("{name} is paused: resume it first")));
        }
        let rules = self.rules.borrow();
        let Some(running) = rules.get(&name) else {
            return Err(ConsoleError::Refused(format!("{name} has retired meanwhile")));
        };
        let before = self.desk.statuses.all().remove(&name).unwrap_or_default();
        running.calls.send_modify(|call| call.orders += 1);
        tracing::info!(rule = name, "an operator wants it to look");
        Ok(json!({ "rule": name, "before": before }))
    }
}

impl<S: Service + Clone + Unpin + 'static> Handle<ConsoleRequest> for CatalogPoller<S> {
    fn handle(&mut self, request: ConsoleRequest, _: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        Answer::now(match request.verb.as_str() {
            "status" => Ok(self.status()),
            "run-once" => self.run_once(&request.args),
            "pause" => self.pause(&request.args, true),
            "resume" => self.pause(&request.args, false),
            _ => Err(ConsoleError::UnknownVerb(VERBS.to_owned())),
        })
    }
}
