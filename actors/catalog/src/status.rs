//! Status of a rule, which outlives restarts, and its metrics.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use orchestrator_supervise::{Timing, Vitals, metrics, sanitize};
use parking_lot::Mutex;
use serde::Serialize;

/// Of texts for people, the last so many are kept.
const TEXTS: usize = 20;

/// How a rule is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RuleStatus {
    /// `idle`, `working`, `waiting` (for what `reason` says), `parked`, `paused` or `stopping`; of a child that does not run `stopped` or
    /// `backing_off`.
    pub phase: &'static str,
    /// Why it waits, or is parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Claimed rows that are not settled.
    pub in_progress: usize,
    /// Of these, rows that are worked on.
    pub working: usize,
    /// Rows that failed, or were candidates again at once, and are left alone for a while.
    pub held_back: usize,
    /// Looks that have ended.
    pub looks: u64,
    /// Rows claimed.
    pub claimed: u64,
    /// Of these, taken over from others whose lease had ended.
    pub taken_over: u64,
    /// Rows done.
    pub done: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Rows that failed for good.
    pub dead: u64,
    /// Rows that were given back untried.
    pub released: u64,
    /// Rows that somebody else had when they should have been settled or renewed.
    pub lost: u64,
    /// Claims that somebody else was faster with: 412.
    pub conflicts: u64,
    /// Rows that somebody else was faster with.
    pub passed_over: u64,
    /// Rows that were claimed again right after they were done or dead.
    pub recurred: u64,
    /// From a row's creation to its claim, of the last one, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<u64>,
    /// The last look that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked: Option<String>,
    /// Claims of which it is not known whether they were written, and rows that cannot be settled: for people to look at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<String>,
    /// What would be claimed, where nothing is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_claim: Vec<String>,
}

/// The status of a rule, which outlives its incarnations. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Mutex<RuleStatus>>);

impl Status {
    /// As it is now.
    pub fn get(&self) -> RuleStatus {
        self.0.lock().clone()
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Rows claimed.
    Claimed,
    /// Of these, taken over.
    TakenOver,
    /// Rows done.
    Done,
    /// Attempts that failed.
    Failed,
    /// Rows that failed for good.
    Dead,
    /// Rows given back.
    Released,
    /// Rows lost to somebody else.
    Lost,
    /// 412.
    Conflicts,
    /// Rows that others were faster with.
    PassedOver,
    /// Rows that were candidates again right after their end.
    Recurred,
}

/// Where one rule tells of itself.
#[derive(Debug, Clone)]
pub struct Board {
    rule: String,
    status: Status,
    metrics: Arc<RuleMetrics>,
    /// Durations of handlers.
    handling: Timing,
}

metrics! {
    /// Metrics of one rule.
    struct RuleMetrics by "rule" {
        /// Rows claimed.
        claimed: counter("rows"),
        /// Rows claimed whose former holder's lease had ended.
        taken_over: counter("rows"),
        /// Rows done, and written as such.
        done: counter("rows"),
        /// Attempts that failed.
        failed: counter("attempts"),
        /// Rows that failed for good.
        dead: counter("rows"),
        /// Rows given back untried.
        released: counter("rows"),
        /// Rows that another agent had when they should have been settled or renewed.
        lost: counter("rows"),
        /// Claims that wrote nothing because the catalog had changed (412).
        conflicts: counter("claims"),
        /// Candidates that another agent claimed first.
        passed_over: counter("rows"),
        /// Rows that were claimed again right after they were done or dead.
        recurred: counter("rows"),
        /// Claimed rows that are not settled.
        in_progress: gauge("rows"),
        /// 1 while the rule rests because the server refuses its requests.
        parked: gauge(""),
        /// Time from a row's creation to its claim, of the last one.
        lag: gauge("milliseconds"),
        /// Claims of unknown outcome, and rows that cannot be settled.
        unsettled: counter(""),
    }
}

impl Board {
    /// The board of `rule`, with its metrics at `vitals`.
    pub fn new(rule: &str, status: &Status, vitals: &Vitals) -> Self {
        Self {
            rule: rule.to_owned(),
            status: status.clone(),
            metrics: Arc::new(RuleMetrics::register(vitals, rule)),
            handling: vitals.register_timing(
                "handling",
                "Time that handlers take for a row.",
                ("kind", "row"),
            ),
        }
    }

    fn change(&self, change: impl FnOnce(&mut RuleStatus)) {
        change(&mut self.status.0.lock());
    }

    /// Counts.
    pub fn count(&self, count: Count, by: usize) {
        let by = by as u64;
        if by == 0 {
            return;
        }
        self.change(|status| {
            let (counter, metric) = match count {
                Count::Claimed => (&mut status.claimed, &self.metrics.claimed),
                Count::TakenOver => (&mut status.taken_over, &self.metrics.taken_over),
                Count::Done => (&mut status.done, &self.metrics.done),
                Count::Failed => (&mut status.failed, &self.metrics.failed),
                Count::Dead => (&mut status.dead, &self.metrics.dead),
                Count::Released => (&mut status.released, &self.metrics.released),
                Count::Lost => (&mut status.lost, &self.metrics.lost),
                Count::Conflicts => (&mut status.conflicts, &self.metrics.conflicts),
                Count::PassedOver => (&mut status.passed_over, &self.metrics.passed_over),
                Count::Recurred => (&mut status.recurred, &self.metrics.recurred),
            };
            *counter += by;
            metric.add(by);
        });
    }

    /// What it does now.
    pub fn phase(&self, phase: &'static str, reason: Option<String>) {
        self.metrics.parked.set((phase == "parked").into());
        self.change(|status| (status.phase, status.reason) = (phase, reason));
    }

    /// How many rows it has.
    pub fn hand(&self, in_progress: usize, working: usize, held_back: usize) {
        self.metrics.in_progress.set(in_progress as u64);
        self.change(|status| {
            (status.in_progress, status.working, status.held_back) = (in_progress, working, held_back)
        });
    }

    /// A look has ended.
    pub fn looked(&self, now: Timestamp) {
        self.change(|status| {
            status.looks += 1;
            status.looked = Some(crate::path::instant(now));
        });
    }

    /// A row was claimed so long after it was made.
    pub fn lag(&self, lag: Duration) {
        let ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
        self.metrics.lag.set(ms);
        self.change(|status| status.lag_ms = Some(ms));
    }

    /// A handler took so long.
    pub fn handled(&self, span: Duration) {
        self.handling.record(span);
    }

    /// Something is left to people.
    pub fn unsettled(&self, text: String) {
        let text = sanitize(text);
        tracing::warn!(rule = self.rule, "{text}");
        self.metrics.unsettled.add(1);
        self.change(|status| {
            status.unsettled.push(text);
            let over = status.unsettled.len().saturating_sub(TEXTS);
            status.unsettled.drain(..over);
        });
    }

    /// What would be claimed.
    pub fn would_claim(&self, keys: Vec<String>) {
        self.change(|status| status.would_claim = keys);
    }
}
