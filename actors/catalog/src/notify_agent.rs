//! Agent of a notify-only rule (CONTRACT CO17): starts a program at each change of the catalog. It
//! claims nothing and sends no requests.

use std::time::Duration;

use jiff::Timestamp;
use orchestrator_catalog_rules::rows::Row;
use orchestrator_subsystem::DETAIL;
use orchestrator_supervise::{Backoff, StopToken};
use orchestrator_text::sanitize;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    agent::Triggers,
    config::RuleConfig,
    handler::{Failure, Handler, Outcome, Task},
    handler_config::HandlerKind,
    polling::{PollIntervals, Polling},
    status::{RuleCounter, StatusReporter},
};

/// Field of the program's answer that requests another run at once.
const AGAIN: &str = "again";

/// Agent of one notify-only rule.
pub(crate) struct NotifyAgent<H> {
    rule: String,
    handler: H,
    reporter: StatusReporter,
    polling: Polling,
    backoff: Backoff,
    /// Time that a running program gets at a stop.
    grace: Duration,
    /// Reason of the last failure, number of failures since the last success, and the end of the delay.
    failed: Option<(String, u32, Instant)>,
}

impl<H: Handler> NotifyAgent<H> {
    /// The program starts at once.
    pub(crate) fn new(
        config: &RuleConfig,
        handler: H,
        reporter: StatusReporter,
        intervals: PollIntervals,
        grace: Duration,
    ) -> Self {
        Self {
            rule: config.name.clone(),
            handler,
            reporter,
            polling: Polling::new(intervals),
            backoff: config.backoff.backoff(),
            grace,
            failed: None,
        }
    }

    /// Runs until `stop` or `retire`. A running program may finish; at a stop, within the grace period.
    pub(crate) async fn run(
        mut self,
        mut triggers: watch::Receiver<Triggers>,
        stop: StopToken,
        retire: StopToken,
    ) {
        let mut applied = Triggers::default();
        loop {
            let given = *triggers.borrow_and_update();
            self.apply_triggers(given, &mut applied);
            let now = Instant::now();
            if stop.is_cancelled() || retire.is_cancelled() {
                return;
            }
            let due = self.next_run();
            if !given.paused && due.is_none_or(|due| due <= now) {
                self.polling.polled(now);
                self.reporter.set_phase("working", None);
                let Some(outcome) = self.run_program(&stop).await else { return };
                self.handle_outcome(outcome, now.elapsed());
                continue;
            }
            self.publish_status(given.paused);
            tokio::select! {
                () = stop.cancelled() => return,
                () = retire.cancelled() => return,
                _ = triggers.changed() => {}
                () = sleep_until(due.unwrap_or(now)), if !given.paused => {}
            }
        }
    }

    fn apply_triggers(&mut self, triggers: Triggers, applied: &mut Triggers) {
        let now = Instant::now();
        self.polling.set_notices_up(triggers.notices_up, now);
        self.polling.notice(triggers.notices.wrapping_sub(applied.notices), now);
        if triggers.forced_polls != applied.forced_polls {
            self.failed = None;
            self.polling.require_poll(now);
        }
        *applied = triggers;
    }

    /// None: at once.
    fn next_run(&self) -> Option<Instant> {
        match &self.failed {
            Some((_, _, until)) => Some(*until),
            None => self.polling.due(),
        }
    }

    /// Runs the program once. None: it did not end within the grace period of a stop.
    async fn run_program(&self, stop: &StopToken) -> Option<Outcome> {
        let task =
            Task { rule: self.rule.clone(), row: Row::new(), token: None, former_token: None, attempt: None };
        let grace_ended = async {
            stop.cancelled().await;
            tokio::time::sleep(self.grace).await;
        };
        tokio::select! {
            outcome = self.handler.handle(task) => Some(outcome),
            () = grace_ended => None,
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome, span: Duration) {
        let now = Instant::now();
        self.reporter.record_handler_time(span);
        let error = match outcome {
            Outcome::Done(answer) => {
                self.failed = None;
                tracing::debug!(target: DETAIL, rule = self.rule, "the program of a notify-only rule has ended");
                self.reporter.polled(Timestamp::now());
                if answer.get(AGAIN).and_then(|again| again.as_bool()) == Some(true) {
                    self.polling.require_poll(now);
                }
                return;
            }
            Outcome::Continues => return,
            Outcome::Later(error)
            | Outcome::Failed(Failure { error, .. })
            | Outcome::Dead(Failure { error, .. }) => sanitize(error),
        };
        self.reporter.count(RuleCounter::Failed, 1);
        self.reporter.set_last_error(&error);
        tracing::warn!(rule = self.rule, error, "the program of a notify-only rule failed");
        let failures = self.failed.as_ref().map_or(0, |(_, failures, _)| *failures);
        let delay = self.backoff.delay(failures, fastrand::f64()).max(Duration::from_millis(10));
        self.failed = Some((error, failures.saturating_add(1), now + delay));
    }

    fn publish_status(&self, paused: bool) {
        let (phase, reason) = match &self.failed {
            _ if paused => ("paused", None),
            Some((reason, ..)) => ("failed", Some(reason.clone())),
            None => ("idle", None),
        };
        self.reporter.set_phase(phase, reason);
    }
}

/// A notify-only rule has a program, and no key of rows.
pub(crate) fn problems(config: &RuleConfig) -> Vec<String> {
    let usual = RuleConfig::default();
    let mut problems: Vec<_> = [
        ("table", config.table.is_some()),
        ("filter", config.filter.is_some()),
        ("query", config.query.is_some()),
        ("update", config.update.is_some()),
        ("lease_secs", config.lease_secs.is_some()),
        ("attempts_column", config.attempts_column.is_some()),
        ("max_attempts", config.max_attempts.is_some()),
        ("claim", config.claim != usual.claim),
        ("plan", config.plan != usual.plan),
        ("done", !config.done.is_empty()),
        ("fail", !config.fail.is_empty()),
        ("dead", !config.dead.is_empty()),
        ("dry_run", config.dry_run),
        ("expect_every", config.expect_every.is_some()),
    ]
    .into_iter()
    .filter(|(_, given)| *given)
    .map(|(key, _)| format!("{key} = ..: a rule with notify_only = true has no rows: leave one of them out"))
    .collect();
    if config.handler.kind != HandlerKind::Command {
        problems.push(
            "notify_only = true: it starts a program: write handler = { kind = \"command\", argv = [..] }"
                .to_owned(),
        );
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_without_rows_has_a_program_and_no_key_of_rows() {
        let rule = |text: &str| -> RuleConfig { serde_json::from_str(text).expect("a rule") };
        let program = r#""handler": {"kind": "command", "argv": ["x"]}"#;
        assert_eq!(problems(&rule(&format!("{{{program}}}"))), Vec::<String>::new());
        let found = problems(&rule(r#"{"table": "Foo", "done": {"state": 1}, "dry_run": true}"#));
        let keys: Vec<_> = found.iter().map(|text| text.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(keys, ["table", "done", "dry_run", "notify_only"]);
    }
}
