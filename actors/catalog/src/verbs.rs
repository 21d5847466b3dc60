//! Verbs of a catalog's console, and the text of their answers.

use std::collections::BTreeMap;

use orchestrator_subsystem::{Until, columns::align, verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::RuleStatus;

verb! {
    "status", Reads -> CatalogStatus, text |_, answer| page(answer);
    /// Show each rule's phase, counters and problems
    ///
    /// Example: orchestrator catalog status
    pub(crate) struct Status {}
}

/// Answer to [`Status`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CatalogStatus {
    pub(crate) catalog: String,
    /// URL of the catalog.
    pub(crate) base: String,
    /// Name that this agent writes into claimed rows.
    pub(crate) agent: String,
    pub(crate) notices: NoticeStatus,
    /// Paused rules.
    pub(crate) paused: Vec<String>,
    /// By name.
    pub(crate) rules: BTreeMap<String, RuleStatus>,
}

/// State of the change notices.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NoticeStatus {
    pub(crate) up: bool,
    /// Notices since the process began.
    pub(crate) count: u64,
    /// Time since `up` changed.
    pub(crate) since_secs: u64,
}

verb! {
    "run-once", Changes -> PollRequested;
    /// Make a rule poll now, even if it is parked
    pub(crate) struct RunOnce {
        /// Name of the rule
        pub(crate) rule: String,
    }
}

/// Answer to [`RunOnce`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PollRequested {
    pub(crate) rule: String,
    /// Status of the rule before the poll.
    pub(crate) before: RuleStatus,
}

verb! {
    "pause", Pauses -> PausedRules, text |_, answer| answer.line();
    /// Stop claiming rows until `resume`; rows already claimed are finished
    ///
    /// Example: orchestrator catalog pause convert --until 30m
    pub(crate) struct Pause {
        /// Resume then: a duration (30m, 1d, 2w), or a time of day or date and time in the instance's time
        /// zone (18:00)
        #[arg(long, value_name = "TIME|DURATION")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) until: Option<Until>,
        /// Apply to this rule only
        pub(crate) rule: Option<String>,
        /// Reason, recorded in the audit log and shown by `orchestrator why`
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "resume", Resumes -> PausedRules, text |_, answer| answer.line();
    /// Resume claiming rows
    ///
    /// Example: orchestrator catalog resume
    pub(crate) struct Resume {
        /// Apply to this rule only
        pub(crate) rule: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(skip)]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

/// Answer to [`Pause`] and [`Resume`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PausedRules {
    pub(crate) catalog: String,
    /// Rules that are paused now.
    pub(crate) paused: Vec<String>,
}

impl PausedRules {
    fn line(&self) -> String {
        let paused = if self.paused.is_empty() { "none".to_owned() } else { self.paused.join(", ") };
        format!("{}: paused: {paused}\n", self.catalog)
    }
}

/// Formats one catalog: a line on itself, a table of its rules, and what an operator has to look
/// at.
fn page(status: &CatalogStatus) -> String {
    let notices = if status.notices.up { "notices arrive" } else { "no notices: polling only" };
    let CatalogStatus { catalog, base, agent, .. } = status;
    let mut page = format!("{catalog} at {base} as {agent}: {notices}\n");
    let head = [
        "RULE",
        "PHASE",
        "IN PROGRESS",
        "WORKING",
        "CLAIMED",
        "DONE",
        "FAILED",
        "DEAD",
        "LOST",
        "DEFERRED",
        "412",
        "LAG",
        "LAST POLL",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let missing = || "-".to_owned();
    for (name, rule) in &status.rules {
        let counts = &rule.counts;
        let numbers =
            [rule.in_progress as u64, rule.working as u64, counts.claimed, counts.done, counts.failed];
        let more = [counts.dead, counts.lost, rule.deferred as u64, counts.conflicts];
        let mut row = vec![name.clone(), rule.phase.to_string()];
        row.extend(numbers.iter().chain(&more).map(u64::to_string));
        row.push(rule.lag_ms.map_or_else(missing, lag));
        row.push(rule.last_poll.clone().unwrap_or_else(missing));
        rows.push(row);
    }
    page.push_str(&align(&rows, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    for (name, rule) in &status.rules {
        if let Some(reason) = &rule.reason {
            page.push_str(&format!("{name}: {}: {reason}\n", rule.phase));
        }
        for (lines, what) in [(&rule.unsettled, "needs attention"), (&rule.would_claim, "would claim")] {
            for line in lines {
                page.push_str(&format!("{name}: {what}: {line}\n"));
            }
        }
    }
    page
}

/// Formats a time between two points of a rule's work.
fn lag(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1_000.0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_has_a_line_for_each_rule_and_each_problem() {
        let status = json!({
            "catalog": "lab", "base": "https://h/ermrest/catalog/1", "agent": "me:1", "paused": [],
            "notices": { "up": false, "count": 0, "since_secs": 0 },
            "rules": {
                "convert": { "phase": "idle", "in_progress": 0, "working": 0, "claimed": 7, "done": 6, "failed": 1, "dead": 0, "lost": 0,
                    "deferred": 1, "conflicts": 0, "lag_ms": 12, "unsettled": ["RID = 1 cannot be written"] },
                "gone": { "phase": "parked", "reason": "409 Table not found", "claimed": 0 },
            },
        });
        let page = page(&serde_json::from_value(status).expect("a status"));
        assert!(
            page.starts_with("lab at https://h/ermrest/catalog/1 as me:1: no notices: polling only\n"),
            "{page}"
        );
        let lines: Vec<_> = page.lines().collect();
        assert!(lines[2].starts_with("convert") && lines[2].contains(" 7 "), "{page}");
        assert_eq!(lines[4], "convert: needs attention: RID = 1 cannot be written");
        assert_eq!(lines[5], "gone: parked: 409 Table not found");
    }
}
