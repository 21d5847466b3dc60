//! Explanation of a row in words. No I/O.

use jiff::Timestamp;
use orchestrator_catalog_rules::{
    outcome_kind::OutcomeKind, rows::Row, rule::Rule, template::Variables, text_template::TextTemplate,
};
use orchestrator_edge::shell_word;
use orchestrator_exchange::JobId;
use orchestrator_observe::without_root;
use orchestrator_subsystem::{Item, NextChance, Progress, text::time_of_ms, wire::Cause};
use orchestrator_text::sanitize;

use crate::{
    config::RuleConfig,
    handler_config::HandlerKind,
    row_question::{HeldRow, RowStage, RuleView},
};

/// A row, as the rule's agents and the server know it.
pub(super) struct Known<'a> {
    pub(super) catalog: &'a str,
    /// Path of the rule's child.
    pub(super) path: String,
    pub(super) key: String,
    pub(super) config: &'a RuleConfig,
    pub(super) rule: &'a Rule,
    pub(super) view: RuleView,
    /// The row in the table, if the server has answered and there is one.
    pub(super) row: Option<Row>,
    /// True if it meets the rule's filter; None if that is not known.
    pub(super) is_candidate: Option<bool>,
    pub(super) now: Timestamp,
}

impl Known<'_> {
    /// None if there is no such row. `problem` is that of the server's answer.
    pub(super) fn item(self, problem: Option<String>) -> Option<Item> {
        let mut item = match (&self.view.held, &self.row) {
            (Some(held), _) => self.held(held),
            (None, Some(row)) => self.not_held(row),
            (None, None) => return None,
        };
        item.evidence.extend(problem.map(|text| format!("the server did not tell the row: {text}")));
        Some(item)
    }

    fn new_item(&self, progress: Progress, text: String, since_ms: Option<u64>) -> Item {
        let name = format!("catalog/{}/{}/{}", self.catalog, self.config.name, sanitize(&self.key));
        Item { since_ms, ..Item::new("row", name, &self.path, progress, text) }
    }

    /// A row that this agent has claimed.
    fn held(&self, held: &HeldRow) -> Item {
        let attempt = match (held.attempt, self.rule.max_attempts) {
            (Some(attempt), Some(max)) => format!(", attempt {attempt} of {max}"),
            (Some(attempt), None) => format!(", attempt {attempt}"),
            (None, _) => String::new(),
        };
        let since = Some(held.claimed_at);
        let mut item = match held.stage {
            RowStage::Pending => {
                let text = format!("claimed{attempt}, waits for a handler");
                let mut item = self.new_item(Progress::Waits, text, since);
                item.causes.push(self.busy());
                item.next = Some(NextChance::Unknown { reason: "once one of the handlers ends".to_owned() });
                item
            }
            RowStage::Running => {
                let handler = match self.config.handler.kind {
                    HandlerKind::Command => "its command runs",
                    HandlerKind::Http => "its webhook is asked",
                    HandlerKind::Queue => "it is a job of the queue",
                    HandlerKind::None => "it has no handler",
                };
                let limit = match self.config.handler.kind {
                    HandlerKind::Queue | HandlerKind::None => String::new(),
                    HandlerKind::Command | HandlerKind::Http => {
                        format!(", for {} s at most", self.config.handler.timeout_secs)
                    }
                };
                self.new_item(Progress::InProgress, format!("claimed{attempt}, {handler}{limit}"), since)
            }
            RowStage::Settling { outcome, is_unknown } => {
                let outcome = name_of(outcome);
                let text = format!("claimed{attempt}; its outcome `{outcome}` is not written yet");
                let mut item = self.new_item(Progress::Waits, text, since);
                let text = match is_unknown {
                    true => {
                        "a write of the outcome had no answer: the row is read before it is written again"
                    }
                    false => "the outcome is in the next write",
                };
                let help = format!("orchestrator why {}", without_root(&self.path));
                item.causes
                    .push(Cause { routine: !is_unknown, ..self.cause("settlement", text.to_owned(), help) });
                item.next = Some(NextChance::Unknown { reason: "as soon as the server answers".to_owned() });
                item
            }
        };
        item.evidence.extend((!held.token.is_empty()).then(|| format!("token {}", sanitize(&held.token))));
        item.evidence
            .extend(held.lease_until.map(|until| format!("its lease ends at {}", time_of_ms(until))));
        item.continues_as.extend(self.job(&held.row, &held.token));
        item
    }

    /// A row that no agent of this process has claimed.
    fn not_held(&self, row: &Row) -> Item {
        let mut item = if let Some(at) = self.view.unconfirmed {
            let mut item = self.new_item(Progress::Waits, "a claim of it had no answer".to_owned(), None);
            let text = "whether the row is claimed is not known until it is read".to_owned();
            let help = format!("orchestrator why {}", without_root(&self.path));
            item.causes.push(self.cause("claim_unconfirmed", text, help));
            item.next = Some(NextChance::At { at_ms: at });
            item
        } else if let Some((failures, until)) = self.view.deferred {
            let attempts = match (self.rule.attempts(row), self.rule.max_attempts) {
                (n, Some(max)) => format!("attempt {n} of {max} failed"),
                (_, None) => format!("{failures} attempts failed in a row"),
            };
            let mut item =
                self.new_item(Progress::Waits, format!("{attempts}; it is tried again later"), None);
            let text = format!("it is not claimed until {}, longer with each failure", time_of_ms(until));
            item.causes.push(self.cause("deferred", text, "orchestrator catalog status".to_owned()));
            item.next = Some(NextChance::NotBefore { at_ms: until });
            item
        } else if let Some(item) = self.of_another(row) {
            item
        } else if self.is_candidate == Some(true) {
            self.candidate()
        } else {
            self.settled(row)
        };
        item.evidence.extend(self.columns(row));
        item
    }

    /// A row that another agent, or a former process, has claimed.
    fn of_another(&self, row: &Row) -> Option<Item> {
        let token = self.rule.former_token(row)?;
        let end = self.rule.lease_end(row)?;
        let end_ms = u64::try_from(end.as_millisecond()).unwrap_or(0);
        let text =
            format!("claimed by another agent, or a former process, with the token {}", sanitize(token));
        let mut item = self.new_item(Progress::Waits, text, None);
        let cause = if end > self.now {
            item.next = Some(NextChance::NotBefore { at_ms: end_ms });
            let help =
                "wait for the end of the lease; if that agent is gone, set the row back to a candidate";
            self.cause("lease", format!("its lease ends at {}", time_of_ms(end_ms)), help.to_owned())
        } else {
            item.next = Some(NextChance::At { at_ms: self.next_poll() });
            let text =
                format!("its lease ended at {}: it is taken over at the next poll", time_of_ms(end_ms));
            Cause { routine: true, ..self.cause("lease", text, self.poll_help()) }
        };
        item.causes.push(Cause { since_ms: (end <= self.now).then_some(end_ms), ..cause });
        Some(item)
    }

    fn candidate(&self) -> Item {
        let mut item = self.new_item(Progress::Waits, "a candidate, not claimed yet".to_owned(), None);
        if let Some(reason) = &self.view.reason {
            let text = format!("the rule reads nothing: {}", sanitize(reason));
            item.causes.push(self.cause("parked", text, self.poll_help()));
        }
        if self.view.working >= self.config.concurrency as usize {
            item.causes.push(self.busy());
        }
        let notices = if self.view.notices_up { "; a change notice makes it poll sooner" } else { "" };
        let text = format!("the rule polls at {}{notices}", time_of_ms(self.next_poll()));
        item.causes.push(Cause { routine: true, ..self.cause("poll", text, self.poll_help()) });
        item.next = Some(NextChance::At { at_ms: self.next_poll() });
        item
    }

    /// A row that is no candidate.
    fn settled(&self, row: &Row) -> Item {
        let filter = self.config.filter.as_ref().or(self.config.query.as_ref()).map(sanitize);
        let filter = filter.unwrap_or_default();
        let text = match (self.rule.outcome_of(row), self.is_candidate) {
            (Some(OutcomeKind::Dead), _) => format!("dead after {} attempts", self.rule.attempts(row)),
            (Some(OutcomeKind::Done), _) => "done".to_owned(),
            (_, None) => "whether it is a candidate is not known".to_owned(),
            _ => "no candidate".to_owned(),
        };
        let text = format!("{text}: it is claimed once it meets the filter {filter}");
        self.new_item(Progress::Ended, text, None)
    }

    /// All handlers of the rule run.
    fn busy(&self) -> Cause {
        let named = self
            .view
            .running
            .iter()
            .map(|(key, since)| format!("{} since {}", sanitize(key), time_of_ms(*since)));
        let mut evidence: Vec<_> = named.collect();
        let more = self.view.working.saturating_sub(evidence.len());
        evidence.extend((more > 0).then(|| format!("and {more} more")));
        let text = format!("all {} handlers of the rule run", self.config.concurrency);
        Cause { evidence, ..self.cause("concurrency", text, "raise `concurrency` of the rule".to_owned()) }
    }

    /// Values of the columns that the rule's filter and outcomes name.
    fn columns<'r>(&'r self, row: &'r Row) -> impl Iterator<Item = String> + 'r {
        let filter = self.config.filter.as_deref().unwrap_or_default();
        let names = self.config.done.keys().chain(self.config.fail.keys()).chain(self.config.dead.keys());
        let is_named =
            move |column: &str| filter.contains(column) || names.clone().any(|name| name == column);
        let values = row.iter().filter(move |(column, _)| is_named(column));
        values.map(|(column, value)| format!("{} is {}", sanitize(column), sanitize(value.to_string())))
    }

    /// Full name of the row's job, if the rule makes jobs of rows.
    fn job(&self, row: &Row, token: &str) -> Option<String> {
        let template = self.config.handler.attr_path.as_ref()?;
        let variables = Variables { token, now: self.now, row, result: None, error: "" };
        let name = TextTemplate::parse(template).ok()?.text(&variables).ok()?;
        Some(format!(
            "queue/{}",
            JobId::new(format!("catalog.{}.{}", self.catalog, self.config.name), &name, token).attr_path()
        ))
    }

    fn next_poll(&self) -> u64 {
        let now_ms = u64::try_from(self.now.as_millisecond()).unwrap_or(0);
        self.view.next_poll.unwrap_or(now_ms).max(now_ms)
    }

    fn poll_help(&self) -> String {
        format!("orchestrator catalog run-once {}", shell_word(&self.config.name))
    }

    fn cause(&self, kind: &str, text: String, help: String) -> Cause {
        Cause::new(kind, &self.path, text, help)
    }
}

fn name_of(outcome: OutcomeKind) -> &'static str {
    match outcome {
        OutcomeKind::Done => "done",
        OutcomeKind::Failed => "fail",
        OutcomeKind::Later => "later",
        OutcomeKind::Dead => "dead",
    }
}
