//! Verbs of the console, and the text of their answers.

use orchestrator_observe::{NodeSnapshot, millis};
use orchestrator_subsystem::{Until, columns::align, until_text, verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Status;

verb! {
    "status", Reads -> StatusAnswer, text |_, answer| {
        let links: String = answer.links.iter().map(|link| format!("{link}\n")).collect();
        table(&answer.status, now_ms()) + &links
    };
    /// Show the producer's phase, progress, rate and estimated time, and the reason if it waits
    ///
    /// Example: orchestrator producer status
    pub(crate) struct ShowStatus {}
}

/// Answer to [`ShowStatus`].
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    #[serde(flatten)]
    pub(crate) status: Status,
    /// Connections that are not up, with the reason.
    #[serde(default)]
    pub(crate) links: Vec<String>,
}

verb! {
    "pause", Pauses -> Paused, text |_, answer| format!("pushing is paused{}\n", until_text(answer.until_ms));
    /// Stop pushing jobs until `resume`; the chunk in flight is completed
    ///
    /// Example: orchestrator producer pause --until 18:00
    pub(crate) struct Pause {
        /// Resume then: a duration (30m, 1d, 2w), or a time of day or date and time in the instance's time
        /// zone (18:00)
        #[arg(long, value_name = "TIME|DURATION")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) until: Option<Until>,
        /// Reason, recorded in the audit log and shown by `orchestrator why`
        #[arg(long, default_value = "", value_name = "TEXT")]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

verb! {
    "resume", Resumes -> Paused, text |_, _| "pushing is resumed\n".to_owned();
    /// Resume pushing jobs
    ///
    /// Example: orchestrator producer resume
    pub(crate) struct Resume {
        /// Reason, recorded in the audit log
        #[arg(skip)]
        #[serde(default)]
        pub(crate) reason: String,
    }
}

/// Answer to [`Pause`] and [`Resume`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Paused {
    /// True while no job is pushed.
    pub(crate) paused: bool,
    /// Time at which the pause ends by itself, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
}

/// One line for each connection in `branch` that is not up. The actor does not know of these while a chunk
/// waits for one.
pub(crate) fn links(branch: &NodeSnapshot) -> Vec<String> {
    let mut lines = Vec::new();
    branch.walk(&mut |node| {
        if let Some(link) = node.link.as_ref().filter(|link| link.state.is_away()) {
            let reason = link.reason.as_deref().unwrap_or(link.state.name());
            lines.push(match node.path.ends_with("/on_complete") {
                true => format!("on_complete: {reason}"),
                false => format!("no connection to {}: {reason}", link.kind),
            });
        }
    });
    lines
}

/// Formats the status as a table.
fn table(status: &Status, now_ms: u64) -> String {
    let secs = now_ms.saturating_sub(status.since_ms) / 1_000;
    let mut phase = format!("{} for {secs} s", status.phase);
    for (is_so, words) in [(status.paused, ", paused"), (status.held, ", stopped by high_water")] {
        if is_so {
            phase.push_str(words);
        }
    }
    let mut rows = vec![("phase", phase)];
    if let Some(tcn) = status.tcn {
        let Status { tcn_pushed, tcn_total, tcn_stencils, .. } = status;
        rows.push((
            "tcn",
            format!("{tcn}: {tcn_pushed} of {tcn_total} jobs of {tcn_stencils} started stencils"),
        ));
    }
    rows.extend(eta(status).map(|eta| ("eta", eta)));
    if status.left_out > 0 {
        let count = status.left_out;
        rows.push(("left out", format!("{count} stencils with rootstock_tcn 0: they are never pushed")));
    }
    if let Some(stencil) = &status.stencil {
        let of = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let (total, left, Status { pushed, jobs_per_sec, .. }) =
            (of(status.total), of(status.left_secs), status);
        rows.push((
            "stencil",
            format!("{stencil}: {pushed} of {total} jobs, {jobs_per_sec}/s, {left} s left"),
        ));
    }
    rows.extend(status.blocked_by.iter().map(|by| ("waits for", by.clone())));
    let no_jobs = |(stencil, set): (&String, &String)| ("no jobs", format!("{stencil}: there are no {set}"));
    rows.extend(status.no_headroom.iter().map(no_jobs));
    rows.extend(status.unavailable.iter().map(|(peer, reason)| ("away", format!("{peer}: {reason}"))));
    if status.undelivered > 0 {
        let count = status.undelivered;
        let text =
            format!("{count} completed TCNs are not delivered: see orchestrator tree producer/on_complete");
        rows.push(("hook", text));
    }
    let cells: Vec<_> = rows.into_iter().map(|(name, text)| vec![name.to_owned(), text]).collect();
    align(&cells, &[])
}

/// Describes the time until the known jobs are completed.
fn eta(status: &Status) -> Option<String> {
    let jobs = Some(status.jobs_left).filter(|jobs| *jobs > 0)?;
    let mut text = match (status.eta_secs, status.completed_per_hour) {
        (Some(secs), Some(rate)) => {
            format!("{} for {jobs} jobs, {rate} are completed per hour", duration(secs))
        }
        _ => format!("unknown for {jobs} jobs until some are completed"),
    };
    if status.stencils_left > 0 {
        let stencils = status.stencils_left;
        text.push_str(&format!("; {stencils} stencils are not started"));
    }
    Some(text)
}

/// Formats a duration with its two greatest units.
fn duration(secs: u64) -> String {
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", secs % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(status: &Value, now_ms: u64) -> String {
        table(&serde_json::from_value(status.clone()).expect("a status"), now_ms)
    }

    #[test]
    fn a_table_has_the_speed_of_a_push() {
        let status = json!({
            "phase": "pushing", "since_ms": 1_000, "tcn": 5, "stencil": "stencil s (TCN 5 = 2 + 3)", "pushed": 40,
            "total": 100, "jobs_per_sec": 20, "left_secs": 3, "tcn_pushed": 60, "tcn_total": 120, "tcn_stencils": 2,
            "no_headroom": {}, "blocked_by": [], "paused": false, "held": false, "away": {},
        });
        let expected = "\
phase    pushing for 4 s
tcn      5: 60 of 120 jobs of 2 started stencils
stencil  stencil s (TCN 5 = 2 + 3): 40 of 100 jobs, 20/s, 3 s left
";
        assert_eq!(shown(&status, 5_000), expected);
    }

    #[test]
    fn a_table_has_the_eta_and_undelivered_completions() {
        let mut status = json!({
            "phase": "pushing", "since_ms": 1_000, "jobs_left": 500, "completed_per_hour": 250, "eta_secs": 7_200,
            "stencils_left": 3, "undelivered": 2,
        });
        let expected = "\
phase  pushing for 4 s
eta    2 h 0 min for 500 jobs, 250 are completed per hour; 3 stencils are not started
hook   2 completed TCNs are not delivered: see orchestrator tree producer/on_complete
";
        assert_eq!(shown(&status, 5_000), expected);
        (status["eta_secs"], status["stencils_left"], status["undelivered"]) =
            (Value::Null, json!(0), json!(0));
        let expected = "phase  pushing for 4 s\neta    unknown for 500 jobs until some are completed\n";
        assert_eq!(shown(&status, 5_000), expected);
        let texts = [59, 61, 3_600, 200_000].map(duration);
        assert_eq!(texts, ["59 s", "1 min 1 s", "1 h 0 min", "2 d 7 h"]);
    }

    #[test]
    fn a_table_has_what_blocks_a_tcn() {
        let status = json!({
            "phase": "blocked", "since_ms": 1_000, "left_out": 4, "tcn": null, "stencil": null, "paused": true, "held": true,
            "blocked_by": ["2 jobs of any type dead: requeue"], "no_headroom": {"stencil s": "tangles with TCN 3"},
            "away": {"queue": "it is gone"},
        });
        let expected = "\
phase      blocked for 1 s, paused, stopped by high_water
left out   4 stencils with rootstock_tcn 0: they are never pushed
waits for  2 jobs of any type dead: requeue
no jobs    stencil s: there are no tangles with TCN 3
away       queue: it is gone
";
        assert_eq!(shown(&status, 2_999), expected);
    }
}
