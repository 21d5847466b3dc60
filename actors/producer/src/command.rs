//! Commands `orchestrator producer ..`.

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, Subsystem, columns::align};
use serde_json::{Value, json};

use crate::config::ProducerConfig;

mod plan;

/// Path of the producer in the tree.
const BRANCH: &str = "producer";
/// Path of the actor that answers.
const CONSOLE: &str = "producer/stencil_producer";

/// Inspect and control the producer.
#[derive(Debug, Clone, Subcommand)]
pub enum ProducerCommand {
    /// Count the jobs that remain to be pushed, without pushing any
    ///
    /// Reads the database directly, so no instance has to run.
    ///
    /// Example: orchestrator producer plan --config /etc/orchestrator/orchestrator.toml
    Plan(plan::PlanArguments),
    /// Show the producer's phase, progress, rate and estimated time, and the reason if it waits
    ///
    /// Example: orchestrator producer status
    Status {
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Stop pushing jobs until `resume`; the chunk in flight is completed
    ///
    /// Example: orchestrator producer pause
    Pause {
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Resume pushing jobs
    ///
    /// Example: orchestrator producer resume
    Resume {
        #[command(flatten)]
        form: OutputFormat,
    },
}

/// Runs a command and prints its result. `S` is the producer subsystem.
pub(crate) async fn run<S: Subsystem<Config = ProducerConfig>>(
    command: &ProducerCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let (verb, form) = match command {
        ProducerCommand::Plan(arguments) => return plan::run::<S>(arguments, context).await,
        ProducerCommand::Status { form } => ("status", *form),
        ProducerCommand::Pause { form } => ("pause", *form),
        ProducerCommand::Resume { form } => ("resume", *form),
    };
    let answer = context.ask(CONSOLE, verb, &json!({}), form).await?;
    let text = match answer["paused"].as_bool() {
        _ if form.json => form.print(&answer),
        _ if verb == "status" => table(&answer, now_ms()) + &links(context).await?,
        Some(true) => "pushing is paused until `orchestrator producer resume`\n".to_owned(),
        _ => "pushing is resumed\n".to_owned(),
    };
    context.print(&text)
}

/// Returns a line for each connection that is not up. The actor does not know of these while a chunk waits for one.
async fn links(context: &Context<'_>) -> Result<String, CommandError> {
    let tree = context.tree(BRANCH).await?;
    let mut text = String::new();
    tree.root.walk(&mut |node| {
        let is_away = |state: &str| !matches!(state, "up" | "idle");
        if let Some(link) = node.link.as_ref().filter(|link| is_away(&link.state)) {
            let reason = link.reason.as_deref().unwrap_or(&link.state);
            let subject = if node.path.ends_with("/on_complete") {
                "on_complete".to_owned()
            } else {
                format!("no connection to {}", link.kind)
            };
            text.push_str(&format!("{subject}: {reason}\n"));
        }
    });
    Ok(text)
}

/// Formats the status as a table.
fn table(status: &Value, now_ms: u64) -> String {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let number = |key: &str| status[key].as_u64();
    let secs = now_ms.saturating_sub(number("since_ms").unwrap_or(now_ms)) / 1_000;
    let mut phase = format!("{} for {secs} s", text("phase"));
    for (key, words) in [("paused", ", paused"), ("held", ", stopped by high_water")] {
        if status[key] == true {
            phase.push_str(words);
        }
    }
    let mut rows = vec![("phase", phase)];
    if let Some(tcn) = status["tcn"].as_i64() {
        let [pushed, total, stencils] =
            ["tcn_pushed", "tcn_total", "tcn_stencils"].map(|key| number(key).unwrap_or_default());
        rows.push(("tcn", format!("{tcn}: {pushed} of {total} jobs of {stencils} started stencils")));
    }
    rows.extend(eta(status).map(|eta| ("eta", eta)));
    if !text("stencil").is_empty() {
        let of = |key: &str| number(key).map_or_else(|| "?".to_owned(), |number| number.to_string());
        let (pushed, total, rate) = (of("pushed"), of("total"), of("jobs_per_sec"));
        let left = format!("{pushed} of {total} jobs, {rate}/s, {} s left", of("left_secs"));
        rows.push(("stencil", format!("{}: {left}", text("stencil"))));
    }
    let lines = |key: &str| status[key].as_array().into_iter().flatten().filter_map(Value::as_str);
    rows.extend(lines("blocked_by").map(|by| ("waits for", by.to_owned())));
    let pairs = |key: &str| {
        let pairs = status[key].as_object().into_iter().flatten();
        pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
    };
    rows.extend(
        pairs("no_headroom").map(|(stencil, set)| ("no jobs", format!("{stencil}: there are no {set}"))),
    );
    rows.extend(pairs("away").map(|(peer, reason)| ("away", format!("{peer}: {reason}"))));
    if let Some(count) = number("undelivered").filter(|count| *count > 0) {
        let text =
            format!("{count} completed TCNs are not delivered: see orchestrator tree producer/on_complete");
        rows.push(("hook", text));
    }
    let cells: Vec<_> = rows.into_iter().map(|(name, text)| vec![name.to_owned(), text]).collect();
    align(&cells, &[])
}

/// Describes the time until the known jobs are completed.
fn eta(status: &Value) -> Option<String> {
    let jobs = status["jobs_left"].as_u64().filter(|jobs| *jobs > 0)?;
    let mut text = match (status["eta_secs"].as_u64(), status["completed_per_hour"].as_u64()) {
        (Some(secs), Some(rate)) => {
            format!("{} for {jobs} jobs, {rate} are completed per hour", duration(secs))
        }
        _ => format!("unknown for {jobs} jobs until some are completed"),
    };
    if let Some(stencils) = status["stencils_left"].as_u64().filter(|stencils| *stencils > 0) {
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
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(table(&status, 5_000), expected);
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
        assert_eq!(table(&status, 5_000), expected);
        (status["eta_secs"], status["stencils_left"], status["undelivered"]) =
            (Value::Null, json!(0), json!(0));
        let expected = "phase  pushing for 4 s\neta    unknown for 500 jobs until some are completed\n";
        assert_eq!(table(&status, 5_000), expected);
        let texts = [59, 61, 3_600, 200_000].map(duration);
        assert_eq!(texts, ["59 s", "1 min 1 s", "1 h 0 min", "2 d 7 h"]);
    }

    #[test]
    fn a_table_has_what_blocks_a_tcn() {
        let status = json!({
            "phase": "blocked", "since_ms": 1_000, "tcn": null, "stencil": null, "paused": true, "held": true,
            "blocked_by": ["2 jobs of any type dead: requeue"], "no_headroom": {"stencil s": "tangles with TCN 3"},
            "away": {"queue": "it is gone"},
        });
        let expected = "\
phase      blocked for 1 s, paused, stopped by high_water
waits for  2 jobs of any type dead: requeue
no jobs    stencil s: there are no tangles with TCN 3
away       queue: it is gone
";
        assert_eq!(table(&status, 2_999), expected);
    }
}
