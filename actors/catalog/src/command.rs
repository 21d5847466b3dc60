//! Commands `orchestrator catalog ..`.

use std::time::Duration;

use clap::{Args, Subcommand};
use orchestrator_subsystem::{CommandError, Context, OutputFormat, Subsystem, columns::align};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::config::CatalogConfig;

mod check;

/// Branch of the catalogs in the tree.
const BRANCH: &str = "catalog";
/// Child of each catalog that answers console requests.
const CONSOLE: &str = "catalog_poller";

/// Maximum time that `run-once` waits for the end of the poll.
const TIMEOUT: Duration = Duration::from_secs(70);
/// Interval at which `run-once` reads the status.
const AGAIN: Duration = Duration::from_millis(50);

/// Inspect, preview and control the rules of catalogs.
#[derive(Debug, Clone, Subcommand)]
pub enum CatalogCommand {
    /// Show each rule's requests and the rows that it would claim now, without writing
    ///
    /// Connects to the catalogs directly, so no instance has to run.
    ///
    /// Example: orchestrator catalog check --config /etc/orchestrator/orchestrator.toml
    Check(check::CheckArguments),
    /// Show each rule's phase, counters and problems
    ///
    /// Example: orchestrator catalog status
    Status {
        /// Show only this catalog
        name: Option<String>,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Stop claiming rows until `resume`; rows already claimed are finished
    ///
    /// Example: orchestrator catalog pause convert
    Pause(SwitchArguments),
    /// Resume claiming rows
    ///
    /// Example: orchestrator catalog resume
    Resume(SwitchArguments),
    /// Make a rule poll now, even if it is parked, and show the claimed rows
    ///
    /// Example: orchestrator catalog run-once convert
    RunOnce {
        /// Name of the rule
        rule: String,
        /// The catalog, if several have a rule of this name
        #[arg(long, value_name = "NAME")]
        catalog: Option<String>,
        #[command(flatten)]
        form: OutputFormat,
    },
}

/// Rules to pause or resume.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct SwitchArguments {
    /// Apply to this rule only
    rule: Option<String>,
    /// Apply to the rules of this catalog only
    #[arg(long, value_name = "NAME")]
    catalog: Option<String>,
    #[command(flatten)]
    form: OutputFormat,
}

/// Runs a command and prints its result.
///
/// `S` is the subsystem itself.
pub(crate) async fn run<S: Subsystem<Config = Vec<CatalogConfig>>>(
    command: &CatalogCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let text = match command {
        CatalogCommand::Check(arguments) => return check::run::<S>(arguments, context).await,
        CatalogCommand::Status { name, form } => {
            let statuses = statuses(context, name.as_deref(), *form).await?;
            if form.json {
                form.print(&statuses)
            } else if statuses.is_empty() {
                "no such catalog\n".to_owned()
            } else {
                statuses.iter().map(|(_, status)| page(status)).collect::<Vec<_>>().join("\n")
            }
        }
        CatalogCommand::Pause(arguments) => switch(context, arguments, "pause").await?,
        CatalogCommand::Resume(arguments) => switch(context, arguments, "resume").await?,
        CatalogCommand::RunOnce { rule, catalog, form } => {
            let after = run_once(context, rule, catalog.as_deref(), *form).await?;
            if form.json { form.print(&after) } else { outcome(rule, &after) }
        }
    };
    context.print(&text)
}

/// Pauses or resumes rules, and reports which rules are paused then.
async fn switch(
    context: &Context<'_>,
    arguments: &SwitchArguments,
    verb: &str,
) -> Result<String, CommandError> {
    let SwitchArguments { rule, catalog, form } = arguments;
    let mut results = Vec::new();
    for (console, status) in statuses(context, catalog.as_deref(), *form).await? {
        if rule.as_ref().is_some_and(|rule| status["rules"].get(rule).is_none()) {
            continue;
        }
        let args = rule.as_ref().map_or_else(|| json!({}), |rule| json!({ "rule": rule }));
        let answer = context.ask(&console, verb, &args, *form).await?;
        results.push(json!({ "catalog": status["catalog"], "paused": answer["paused"] }));
    }
    if results.is_empty() {
        return Err(CommandError::Local("there is no such catalog, or rule".to_owned()));
    }
    if form.json {
        return Ok(form.print(&results));
    }
    let line = |one: &Value| {
        let paused: Vec<_> = one["paused"].as_array().into_iter().flatten().map(text).collect();
        let paused = if paused.is_empty() { "none".to_owned() } else { paused.join(", ") };
        format!("{}: paused: {paused}\n", text(&one["catalog"]))
    };
    Ok(results.iter().map(line).collect())
}

/// Returns path and status of each catalog's console.
async fn statuses(
    context: &Context<'_>,
    name: Option<&str>,
    form: OutputFormat,
) -> Result<Vec<(String, Value)>, CommandError> {
    let mut statuses = Vec::new();
    for node in &context.tree(BRANCH).await?.root.children {
        let console = format!("{BRANCH}/{}/{CONSOLE}", node.id);
        let status = context.ask(&console, "status", &json!({}), form).await?;
        if name.is_none_or(|name| status["catalog"] == name) {
            statuses.push((console, status));
        }
    }
    Ok(statuses)
}

/// Requests a poll and waits for its end; returns the rule's status before and after.
async fn run_once(
    context: &Context<'_>,
    rule: &str,
    catalog: Option<&str>,
    form: OutputFormat,
) -> Result<Value, CommandError> {
    let all = statuses(context, catalog, form).await?;
    let having: Vec<_> = all.iter().filter(|(_, status)| status["rules"].get(rule).is_some()).collect();
    let console = match having.as_slice() {
        [(console, _)] => console,
        [] => {
            let known: Vec<_> = all.iter().flat_map(|(_, status)| names(&status["rules"])).collect();
            return Err(CommandError::Local(format!(
                "there is no rule {rule}; there is {}",
                known.join(", ")
            )));
        }
        several => {
            let names: Vec<_> = several.iter().map(|(_, status)| text(&status["catalog"])).collect();
            let names = names.join(", ");
            return Err(CommandError::Local(format!(
                "several catalogs have a rule {rule}: give --catalog, one of {names}"
            )));
        }
    };
    let before = context.ask(console, "run-once", &json!({ "rule": rule }), form).await?["before"].clone();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let status = context.ask(console, "status", &json!({}), form).await?;
        let after = &status["rules"][rule];
        let polled = after["polls"].as_u64() > before["polls"].as_u64();
        let stuck = after["phase"] == "parked" || after["phase"] == "waiting" && after["reason"].is_string();
        if polled || stuck || Instant::now() > deadline {
            return Ok(json!({ "before": before, "after": after }));
        }
        sleep(AGAIN).await;
    }
}

/// Describes the result of a poll.
fn outcome(rule: &str, results: &Value) -> String {
    let (before, after) = (&results["before"], &results["after"]);
    let more =
        |name: &str| after[name].as_u64().unwrap_or(0).saturating_sub(before[name].as_u64().unwrap_or(0));
    if more("polls") == 0 {
        return format!("{rule} is {}: {}\n", text(&after["phase"]), text(&after["reason"]));
    }
    format!("{rule} has polled: {} claimed, {} done so far\n", more("claimed"), more("done"))
}

/// Formats one catalog: a line on itself, a table of its rules, and what an operator has to look
/// at.
fn page(status: &Value) -> String {
    let notices = if status["notices"]["up"] == true { "notices arrive" } else { "no notices: polling only" };
    let mut page = format!(
        "{} at {} as {}: {notices}\n",
        text(&status["catalog"]),
        text(&status["base"]),
        text(&status["agent"])
    );
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
        "LAG MS",
        "LAST POLL",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let rules = status["rules"].as_object().cloned().unwrap_or_default();
    for (name, rule) in &rules {
        let keys = [
            "phase",
            "in_progress",
            "working",
            "claimed",
            "done",
            "failed",
            "dead",
            "lost",
            "deferred",
            "conflicts",
            "lag_ms",
            "last_poll",
        ];
        let cells = keys.map(|key| text(&rule[key]));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    page.push_str(&align(&rows, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    for (name, rule) in &rules {
        if rule["reason"].is_string() {
            page.push_str(&format!("{name}: {}: {}\n", text(&rule["phase"]), text(&rule["reason"])));
        }
        for (key, what) in [("unsettled", "needs attention"), ("would_claim", "would claim")] {
            for line in rule[key].as_array().into_iter().flatten() {
                page.push_str(&format!("{name}: {what}: {}\n", text(line)));
            }
        }
    }
    page
}

fn names(rules: &Value) -> Vec<String> {
    rules.as_object().into_iter().flat_map(|rules| rules.keys().cloned()).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_has_a_line_for_each_rule_and_each_problem() {
        let status = json!({
            "catalog": "lab", "base": "https://h/ermrest/catalog/1", "agent": "me:1", "paused": [],
            "notices": { "up": false, "count": 0 },
            "rules": {
                "convert": { "phase": "idle", "in_progress": 0, "working": 0, "claimed": 7, "done": 6, "failed": 1, "dead": 0, "lost": 0,
                    "deferred": 1, "conflicts": 0, "lag_ms": 12, "unsettled": ["RID = 1 cannot be written"] },
                "gone": { "phase": "parked", "reason": "409 Table not found", "claimed": 0 },
            },
        });
        let page = page(&status);
        assert!(
            page.starts_with("lab at https://h/ermrest/catalog/1 as me:1: no notices: polling only\n"),
            "{page}"
        );
        let lines: Vec<_> = page.lines().collect();
        assert!(lines[2].starts_with("convert") && lines[2].contains(" 7 "), "{page}");
        assert_eq!(lines[4], "convert: needs attention: RID = 1 cannot be written");
        assert_eq!(lines[5], "gone: parked: 409 Table not found");
    }

    #[test]
    fn run_once_reports_claims_or_the_reason_for_none() {
        let results = json!({ "before": { "polls": 1, "claimed": 2, "done": 2 }, "after": { "polls": 2, "claimed": 5, "done": 3 } });
        assert_eq!(outcome("r", &results), "r has polled: 3 claimed, 1 done so far\n");
        let results =
            json!({ "before": { "polls": 1 }, "after": { "polls": 1, "phase": "parked", "reason": "409" } });
        assert_eq!(outcome("r", &results), "r is parked: 409\n");
    }
}
