//! Commands `orchestrator catalog ..`.

use std::time::Duration;

use clap::{Args, Subcommand};
use orchestrator_subsystem::{CommandError, Context, OutputFormat, Subsystem, Verb};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    config::CatalogConfig,
    status::RuleStatus,
    verbs::{CatalogStatus, Pause, PausedRules, Resume, RunOnce, Status},
};

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
        format: OutputFormat,
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
        format: OutputFormat,
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
    format: OutputFormat,
}

/// Runs a command and prints its result.
///
/// `S` is the subsystem itself.
pub(crate) async fn run<S: Subsystem<Config = Vec<CatalogConfig>>>(
    command: &CatalogCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    match command {
        CatalogCommand::Check(arguments) => check::run::<S>(arguments, context).await,
        CatalogCommand::Status { name, format } => {
            let answers = answers(context, name.as_deref()).await?;
            let text = if format.json {
                format.print(&answers)
            } else if answers.is_empty() {
                "no such catalog\n".to_owned()
            } else {
                let page = |(_, answer)| Ok(Status {}.text(&context.read::<Status>(answer)?));
                let pages: Result<Vec<_>, CommandError> = answers.into_iter().map(page).collect();
                pages?.join("\n")
            };
            context.print(&text)
        }
        CatalogCommand::Pause(arguments) => {
            let verb = Pause { rule: arguments.rule.clone(), reason: String::new() };
            switch(context, arguments, &verb).await
        }
        CatalogCommand::Resume(arguments) => {
            let verb = Resume { rule: arguments.rule.clone(), reason: String::new() };
            switch(context, arguments, &verb).await
        }
        CatalogCommand::RunOnce { rule, catalog, format } => {
            let (before, after) = run_once(context, rule, catalog.as_deref()).await?;
            let text = match format.json {
                true => format.print(&json!({ "before": before, "after": after })),
                false => outcome(rule, &before, &after),
            };
            context.print(&text)
        }
    }
}

/// Pauses or resumes rules, and prints which rules are paused then.
async fn switch<V: Verb<Answer = PausedRules>>(
    context: &mut Context<'_>,
    arguments: &SwitchArguments,
    verb: &V,
) -> Result<(), CommandError> {
    let SwitchArguments { rule, catalog, format } = arguments;
    let (mut results, mut text) = (Vec::new(), String::new());
    for (console, status) in statuses(context, catalog.as_deref()).await? {
        if rule.as_ref().is_some_and(|rule| !status.rules.contains_key(rule)) {
            continue;
        }
        let answer = context.ask(&console, verb).await?;
        results.push(json!({ "catalog": status.catalog, "paused": answer["paused"] }));
        let paused = context.read::<V>(answer)?.paused;
        let paused = if paused.is_empty() { "none".to_owned() } else { paused.join(", ") };
        text.push_str(&format!("{}: paused: {paused}\n", status.catalog));
    }
    if results.is_empty() {
        return Err(CommandError::Local("there is no such catalog, or rule".to_owned()));
    }
    context.print(&if format.json { format.print(&results) } else { text })
}

/// Returns path and status of each catalog's console, as JSON.
async fn answers(context: &Context<'_>, name: Option<&str>) -> Result<Vec<(String, Value)>, CommandError> {
    let mut answers = Vec::new();
    for node in &context.tree(BRANCH).await?.root.children {
        let console = format!("{BRANCH}/{}/{CONSOLE}", node.id);
        let status = context.ask(&console, &Status {}).await?;
        if name.is_none_or(|name| status["catalog"] == name) {
            answers.push((console, status));
        }
    }
    Ok(answers)
}

/// Returns path and status of each catalog's console.
async fn statuses(
    context: &Context<'_>,
    name: Option<&str>,
) -> Result<Vec<(String, CatalogStatus)>, CommandError> {
    let answers = answers(context, name).await?.into_iter();
    answers.map(|(console, answer)| Ok((console, context.read::<Status>(answer)?))).collect()
}

/// Requests a poll and waits for its end; returns the rule's status before and after.
async fn run_once(
    context: &Context<'_>,
    rule: &str,
    catalog: Option<&str>,
) -> Result<(RuleStatus, RuleStatus), CommandError> {
    let all = statuses(context, catalog).await?;
    let having: Vec<_> = all.iter().filter(|(_, status)| status.rules.contains_key(rule)).collect();
    let console = match having.as_slice() {
        [(console, _)] => console,
        [] => {
            let known: Vec<_> = all.iter().flat_map(|(_, status)| status.rules.keys().cloned()).collect();
            return Err(CommandError::Local(format!(
                "there is no rule {rule}; there is {}",
                known.join(", ")
            )));
        }
        several => {
            let names: Vec<_> = several.iter().map(|(_, status)| status.catalog.as_str()).collect();
            let names = names.join(", ");
            return Err(CommandError::Local(format!(
                "several catalogs have a rule {rule}: give --catalog, one of {names}"
            )));
        }
    };
    let poll = context.ask(console, &RunOnce { rule: rule.to_owned() }).await?;
    let before = context.read::<RunOnce>(poll)?.before;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut status = context.read::<Status>(context.ask(console, &Status {}).await?)?;
        let after = status.rules.remove(rule).unwrap_or_default();
        let polled = after.polls > before.polls;
        let stuck = after.phase == "parked" || after.phase == "waiting" && after.reason.is_some();
        if polled || stuck || Instant::now() > deadline {
            return Ok((before, after));
        }
        sleep(AGAIN).await;
    }
}

/// Describes the result of a poll.
fn outcome(rule: &str, before: &RuleStatus, after: &RuleStatus) -> String {
    if after.polls <= before.polls {
        let reason = after.reason.as_deref().unwrap_or("-");
        return format!("{rule} is {}: {reason}\n", after.phase);
    }
    let claimed = after.counts.claimed.saturating_sub(before.counts.claimed);
    let done = after.counts.done.saturating_sub(before.counts.done);
    format!("{rule} has polled: {claimed} claimed, {done} done so far\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_once_reports_claims_or_the_reason_for_none() {
        let status = |json| serde_json::from_value::<RuleStatus>(json).expect("a status");
        let before = status(json!({ "polls": 1, "claimed": 2, "done": 2 }));
        let after = status(json!({ "polls": 2, "claimed": 5, "done": 3 }));
        assert_eq!(outcome("r", &before, &after), "r has polled: 3 claimed, 1 done so far\n");
        let after = status(json!({ "polls": 1, "phase": "parked", "reason": "409" }));
        assert_eq!(outcome("r", &before, &after), "r is parked: 409\n");
    }
}
