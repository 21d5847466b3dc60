//! Commands `orchestrator catalog ..`.

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, Subcommand};
use orchestrator_subsystem::{CommandError, Context, OutputFormat, Subsystem, route::Route};
use orchestrator_supervise::Child;
use tokio::time::{Instant, sleep};

use crate::{
    config::CatalogConfig,
    status::RuleStatus,
    verbs::{CatalogStatus, RunOnce, Status},
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

/// Route to the consoles of all catalogs, or of one.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct InCatalog {
    /// Apply to the rules of this catalog only
    #[arg(long, value_name = "NAME")]
    catalog: Option<String>,
}

impl<A: Child> Route<A> for InCatalog {
    fn only(&self) -> Option<&str> {
        self.catalog.as_deref()
    }
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
        CatalogCommand::RunOnce { rule, catalog, format } => {
            let (before, after) = run_once(context, rule, catalog.as_deref()).await?;
            let text = match format.json {
                true => format.print(&BTreeMap::from([("before", &before), ("after", &after)])),
                false => outcome(rule, &before, &after),
            };
            context.print(&text)
        }
    }
}

/// Statuses with the paths of the catalogs' consoles.
async fn statuses(
    context: &Context<'_>,
    name: Option<&str>,
) -> Result<Vec<(String, CatalogStatus)>, CommandError> {
    let mut statuses = Vec::new();
    for node in &context.tree(BRANCH).await?.root.children {
        if name.is_none() || node.label.as_deref() == name {
            let console = format!("{BRANCH}/{}/{CONSOLE}", node.id);
            let status = context.read::<Status>(context.ask(&console, &Status {}).await?)?;
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
    let earlier = before.counts.claimed;
    // A poll on time, or after a notice, may have taken the rows that the operator has in mind.
    if claimed == 0 && earlier > 0 {
        let (done, in_progress) = (after.counts.done, after.in_progress);
        return format!(
            "{rule} has polled: nothing to claim; the polls before have claimed {earlier}: {done} done, {in_progress} in progress\n"
        );
    }
    format!("{rule} has polled: {claimed} claimed, {done} done so far\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_once_reports_claims_or_the_reason_for_none() {
        let status = |json| serde_json::from_str::<RuleStatus>(json).expect("a status");
        let before = status(r#"{ "polls": 1, "claimed": 2, "done": 2 }"#);
        let after = status(r#"{ "polls": 2, "claimed": 5, "done": 3 }"#);
        assert_eq!(outcome("r", &before, &after), "r has polled: 3 claimed, 1 done so far\n");
        let after = status(r#"{ "polls": 2, "claimed": 2, "done": 1, "in_progress": 1 }"#);
        let taken =
            "r has polled: nothing to claim; the polls before have claimed 2: 1 done, 1 in progress\n";
        assert_eq!(outcome("r", &before, &after), taken);
        let after = status(r#"{ "polls": 1, "phase": "parked", "reason": "409" }"#);
        assert_eq!(outcome("r", &before, &after), "r is parked: 409\n");
    }
}
