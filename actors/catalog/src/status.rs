//! Status and metrics of a rule. The status outlives restarts.

use std::{borrow::Cow, sync::Arc, time::Duration};

use jiff::Timestamp;
use orchestrator_catalog_rules::cell::Cell;
use orchestrator_exchange::HookEvents;
use orchestrator_observe::{ExpectedInput, Timing, metrics, millis};
use orchestrator_subsystem::{Period, until_text};
use orchestrator_supervise::{ChildState, Vitals};
use orchestrator_text::sanitize;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{config::RuleConfig, service::BODY_BYTES_MAX};

/// Number of texts for operators that are kept.
const TEXTS_KEPT: usize = 20;

/// Status of a rule, as the console shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RuleStatus {
    /// `idle`, `working`, `waiting`, `plan_failed`, `failed` (the program of a notify-only rule),
    /// `parked`, `paused` or `stopping`; `stopped` or `backing_off` for a child that does not run.
    pub phase: Cow<'static, str>,
    /// Reason of `waiting`, `plan_failed`, `failed` and `parked`; of other phases, a row that the server
    /// refuses again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Claimed rows that are not settled.
    pub in_progress: usize,
    /// Of these, rows whose handlers run.
    pub working: usize,
    /// Rows that are not claimed for a while, since they failed or recurred.
    pub deferred: usize,
    /// Finished polls.
    pub polls: u64,
    #[serde(flatten)]
    pub counts: RuleCounts,
    /// Time from the creation of the last claimed row to its claim, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<u64>,
    /// Error of the last failed attempt, in the handler's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Time of the last finished poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_poll: Option<String>,
    /// Claims with an unknown outcome and rows that cannot be settled, for an operator to look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<String>,
    /// Keys of rows that a dry run would claim.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_claim: Vec<String>,
}

/// Shared status of a rule. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status(Arc<Mutex<RuleStatus>>);

impl Status {
    pub(crate) fn get(&self) -> RuleStatus {
        self.0.lock().clone()
    }
}

/// Defines the counters of a rule: their kinds, their values in the status, and their metrics.
macro_rules! rule_counters {
    ($( $(#[doc = $help:literal])+ $counter:ident => $field:ident($unit:literal), )+) => {
        /// Kind of a counter of a rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum RuleCounter {
            $( $(#[doc = $help])+ $counter, )+
        }

        /// Values of a rule's counters.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub(crate) struct RuleCounts {
            $( $(#[doc = $help])+ pub $field: u64, )+
        }

        metrics! {
            /// Metrics of one rule.
            struct RuleMetrics by "rule" {
                /// Finished polls, after notices or the interval.
                polls: counter(""),
                $( $(#[doc = $help])+ $field: counter($unit), )+
                /// Candidates that the last poll has read and not claimed; it reads up to the rule's limit.
                candidates: gauge("rows"),
                /// Claimed rows that are not settled.
                in_progress: gauge("rows"),
                /// Unix time of the oldest claim that is not settled; 0 if there is none.
                oldest_claim: gauge("timestamp_seconds"),
                /// 1 while the rule is parked because the server refuses its requests.
                parked: gauge(""),
                /// Time from the creation of the last claimed row to its claim; 0 once no row is in progress.
                lag: gauge("milliseconds"),
                /// Bytes of the rule's last answers, which are kept until the server has newer ones.
                cached: gauge("bytes") as "cached_answers",
                /// Claims with an unknown outcome, and rows that cannot be settled.
                unsettled: counter(""),
            }
        }

        impl RuleCounter {
            fn add(self, by: u64, counts: &mut RuleCounts, metrics: &RuleMetrics) {
                let (count, metric) = match self {
                    $( Self::$counter => (&mut counts.$field, &metrics.$field), )+
                };
                *count += by;
                metric.add(by);
            }
        }
    };
}

rule_counters! {
    /// Rows claimed.
    Claimed => claimed("rows"),
    /// Rows claimed after another agent's lease had ended.
    TakenOver => taken_over("rows"),
    /// Rows written as done.
    Done => done("rows"),
    /// Attempts that failed.
    Failed => failed("attempts"),
    /// Rows that failed for good.
    Dead => dead("rows"),
    /// Rows released without an attempt.
    Released => released("rows"),
    /// Rows that another agent had claimed before they were settled or renewed.
    Lost => lost("rows"),
    /// Claims that wrote nothing because the catalog had changed (412).
    Conflicts => conflicts("claims"),
    /// Candidates that another agent claimed first.
    PassedOver => passed_over("rows"),
    /// Rows claimed again right after they were done or dead.
    Recurred => recurred("rows"),
}

/// Reporter of a rule's status and metrics.
#[derive(Debug, Clone)]
pub(crate) struct StatusReporter {
    rule: String,
    /// Address of the catalog, as its link names it.
    server: Arc<str>,
    child: Arc<ChildState>,
    vitals: Arc<Vitals>,
    status: Status,
    metrics: Arc<RuleMetrics>,
    /// Durations of handlers.
    handler_time: Timing,
    expected: Arc<Mutex<Option<ExpectedInput>>>,
    hook_events: HookEvents,
}

impl StatusReporter {
    /// `server` is that of the catalog. Registers the metrics of `child`.
    pub(crate) fn new(
        rule: &str,
        server: &Arc<str>,
        status: &Status,
        child: &Arc<ChildState>,
        hook_events: &HookEvents,
    ) -> Self {
        let vitals = child.vitals();
        vitals.set_work_unit("row");
        let metrics = RuleMetrics::register(vitals, rule);
        // One answer for each kind of poll.
        metrics.cached.set_bound(2 * BODY_BYTES_MAX as u64);
        Self {
            rule: rule.to_owned(),
            server: server.clone(),
            child: child.clone(),
            vitals: vitals.clone(),
            status: status.clone(),
            metrics: Arc::new(metrics),
            handler_time: vitals.register_timing(
                "handling",
                "Time that handlers take for a row.",
                ("kind", "row"),
            ),
            expected: Arc::default(),
            hook_events: hook_events.clone(),
        }
    }

    /// Declares the input that the rule expects by its configuration.
    pub(crate) fn expect(&self, config: &RuleConfig) {
        let help = format!("check what writes the rows; orchestrator catalog status {}", self.rule);
        let declare = |every: Period| self.vitals.expect_input(&self.rule, every.duration(), &help);
        *self.expected.lock() = config.expect_every.map(declare);
        if config.expect_every.is_none() {
            self.vitals.forget_input(&self.rule);
        }
    }

    fn change(&self, change: impl FnOnce(&mut RuleStatus)) {
        change(&mut self.status.0.lock());
    }

    /// Adds to a counter.
    pub(crate) fn count(&self, counter: RuleCounter, by: usize) {
        if by == 0 {
            return;
        }
        if matches!(counter, RuleCounter::Done | RuleCounter::Failed | RuleCounter::Dead) {
            self.vitals.record_work();
        }
        if matches!(counter, RuleCounter::Claimed | RuleCounter::PassedOver) {
            self.input_arrived();
        }
        self.change(|status| counter.add(by as u64, &mut status.counts, &self.metrics));
    }

    /// Records that new rows have come.
    fn input_arrived(&self) {
        self.expected.lock().iter().for_each(ExpectedInput::arrived);
    }

    /// Reports that `row` is dead for `reason`.
    pub(crate) fn row_died(&self, row: &Cell, reason: &str) {
        self.hook_events.report(
            self.vitals.path(),
            "catalog.dead",
            || json!({ "rule": self.rule, "row": sanitize(row.text()), "reason": sanitize(reason) }),
        );
    }

    /// Reports a phase without work to `GET /v1/why`, too.
    pub(crate) fn set_phase(&self, phase: &'static str, reason: Option<String>) {
        let rule = &self.rule;
        match (phase, &reason) {
            ("parked", Some(reason)) => {
                let help =
                    format!("orchestrator catalog check {rule}; then orchestrator catalog run-once {rule}");
                self.vitals.set_fault(
                    "rule_parked",
                    &format!("rule {rule}"),
                    format!("the server refuses the rule: {reason}"),
                    &["the rule asks again every five minutes; other rules continue".to_owned()],
                    help,
                );
            }
            ("waiting", Some(reason)) => {
                let evidence = [format!("rule {rule} waits for {}", self.server)];
                let help = "orchestrator catalog status";
                self.vitals.set_fault("server_unavailable", &self.server, reason, &evidence, help);
            }
            ("plan_failed", Some(reason)) => {
                let help = format!("orchestrator catalog check {rule}");
                self.vitals.set_blocker("plan_failed", format!("no plan for claims: {reason}"), help);
            }
            ("failed", Some(reason)) => {
                let help = format!("correct the program; then orchestrator catalog run-once {rule}");
                self.vitals.set_blocker("program_failed", reason, help);
            }
            ("paused", _) => {
                let help = format!("orchestrator catalog resume {rule}");
                let until = until_text(self.child.pause().and_then(|pause| pause.until_ms));
                self.vitals.set_blocker("paused", format!("an operator paused the rule{until}"), help);
            }
            ("idle" | "working", Some(reason)) => {
                let help = format!("correct the row or its handler; orchestrator catalog status {rule}");
                let evidence = ["other rows continue".to_owned()];
                self.vitals.set_blocker_with("row_refused", reason, &evidence, help);
            }
            _ => self.vitals.clear_blocker(),
        }
        self.metrics.parked.set((phase == "parked").into());
        self.change(|status| (status.phase, status.reason) = (phase.into(), reason));
    }

    pub(crate) fn set_row_counts(&self, in_progress: usize, working: usize, deferred: usize) {
        self.metrics.in_progress.set(in_progress as u64);
        if in_progress == 0 {
            self.metrics.lag.set(0);
        }
        self.vitals.set_work_waits(in_progress > 0);
        self.change(|status| {
            (status.in_progress, status.working, status.deferred) = (in_progress, working, deferred)
        });
    }

    pub(crate) fn set_candidates(&self, left: usize) {
        self.metrics.candidates.set(left as u64);
    }

    pub(crate) fn set_cached_bytes(&self, bytes: usize) {
        self.metrics.cached.set(bytes as u64);
    }

    /// Records the end of a poll.
    pub(crate) fn polled(&self, now: Timestamp) {
        self.metrics.polls.add(1);
        self.change(|status| {
            status.polls += 1;
            status.last_poll = Some(orchestrator_catalog_rules::path::instant(now));
        });
    }

    /// Only claims that are not settled count.
    pub(crate) fn set_oldest_claim(&self, at: Option<Timestamp>) {
        let seconds = at.map_or(0, Timestamp::as_second);
        self.metrics.oldest_claim.set(u64::try_from(seconds).unwrap_or_default());
    }

    /// Records the error of a failed attempt.
    pub(crate) fn set_last_error(&self, error: &str) {
        let error = sanitize(error);
        self.change(|status| status.last_error = Some(error));
    }

    /// Time between a row's creation and its claim.
    pub(crate) fn set_lag(&self, lag: Duration) {
        let ms = millis(lag);
        self.metrics.lag.set(ms);
        self.change(|status| status.lag_ms = Some(ms));
    }

    pub(crate) fn record_handler_time(&self, span: Duration) {
        self.handler_time.record(span);
    }

    /// Reports something for an operator to look at.
    pub(crate) fn report_unsettled(&self, text: String) {
        let text = sanitize(text);
        tracing::warn!(rule = self.rule, "{text}");
        self.metrics.unsettled.add(1);
        self.change(|status| {
            status.unsettled.push(text);
            let over = status.unsettled.len().saturating_sub(TEXTS_KEPT);
            status.unsettled.drain(..over);
        });
    }

    pub(crate) fn set_would_claim(&self, keys: Vec<String>) {
        self.change(|status| status.would_claim = keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orchestrator_supervise::testing;

    #[test]
    fn the_lag_ends_with_the_last_row() {
        let child = testing::child("catalog/test");
        let reporter = StatusReporter::new(
            "work",
            &"http://catalog".into(),
            &Status::default(),
            &child,
            &HookEvents::default(),
        );
        reporter.set_lag(Duration::from_secs(5));
        reporter.set_row_counts(1, 0, 0);
        assert_eq!(reporter.metrics.lag.get(), 5_000);
        reporter.set_row_counts(0, 0, 0);
        assert_eq!(reporter.metrics.lag.get(), 0);
    }
}
