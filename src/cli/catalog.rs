//! `orchestrator catalog ..`: what catalogs tell of themselves, a look on order, and a dry run. All that the CLI knows of them is in
//! this file and in `check.rs`.

use std::time::Duration;

use clap::{Args, Subcommand};
use orchestrator_admin::{
    columns::align,
    wire::{TreeSnapshot, console_url, tree_url},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cli::{client::Client, client_error::ClientError, output::Form};

#[cfg(feature = "catalog")]
mod check;

/// The branch that they are in.
const BRANCH: &str = "catalog";
/// The child of each that answers.
const CONSOLE: &str = "poller";

/// How long a look that was ordered is waited for.
const PATIENCE: Duration = Duration::from_secs(70);
/// Between two questions whether it has ended.
const AGAIN: Duration = Duration::from_millis(50);

/// Look into the catalogs and their rules, and try rules out.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum CatalogCommand {
    /// Show the exact paths of each rule, and rows that it would claim now. Nothing is written
    ///
    /// Asks the catalogs, not a running instance.
    ///
    /// Example: orchestrator catalog check --config /etc/orchestrator/orchestrator.toml
    #[cfg(feature = "catalog")]
    Check(check::CheckArguments),
    /// Show each rule: what it does, what it has in hand, and what waits for people
    ///
    /// Example: orchestrator catalog status
    Status {
        /// Only this catalog
        name: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Claim nothing until `resume`; what is claimed is finished
    ///
    /// Example: orchestrator catalog pause convert
    Pause(SwitchArguments),
    /// Claim again
    ///
    /// Example: orchestrator catalog resume
    Resume(SwitchArguments),
    /// Let a rule look now, also if it is parked, and tell what it claimed
    ///
    /// Example: orchestrator catalog run-once convert
    RunOnce {
        /// The rule
        rule: String,
        /// The catalog, if several have such a rule
        #[arg(long, value_name = "NAME")]
        catalog: Option<String>,
        #[command(flatten)]
        form: Form,
    },
}

/// Which rules.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct SwitchArguments {
    /// Only this rule
    rule: Option<String>,
    /// Only this catalog
    #[arg(long, value_name = "NAME")]
    catalog: Option<String>,
    #[command(flatten)]
    form: Form,
}

impl CatalogCommand {
    /// Form in which the answer of an instance is printed.
    pub(super) fn form(&self) -> Option<&Form> {
        match self {
            #[cfg(feature = "catalog")]
            Self::Check(_) => None,
            Self::Status { form, .. } | Self::RunOnce { form, .. } => Some(form),
            Self::Pause(arguments) | Self::Resume(arguments) => Some(&arguments.form),
        }
    }
}

/// Carries it out and gives what is to be printed.
pub(crate) async fn run(command: &CatalogCommand, client: &Client) -> Result<String, ClientError> {
    match command {
        #[cfg(feature = "catalog")]
        CatalogCommand::Check(arguments) => check::run(arguments).await,
        CatalogCommand::Status { name, form } => {
            let told = statuses(client, name.as_deref()).await?;
            if form.json {
                return Ok(form.print(&told));
            }
            if told.is_empty() {
                return Ok("no such catalog\n".to_owned());
            }
            Ok(told.iter().map(|(_, status)| page(status)).collect::<Vec<_>>().join("\n"))
        }
        CatalogCommand::Pause(arguments) => switch(client, arguments, "pause").await,
        CatalogCommand::Resume(arguments) => switch(client, arguments, "resume").await,
        CatalogCommand::RunOnce { rule, catalog, form } => {
            let after = run_once(client, rule, catalog.as_deref()).await?;
            Ok(if form.json { form.print(&after) } else { outcome(rule, &after) })
        }
    }
}

/// Pauses or resumes, and gives which rules are paused then.
async fn switch(client: &Client, arguments: &SwitchArguments, verb: &str) -> Result<String, ClientError> {
    let SwitchArguments { rule, catalog, form } = arguments;
    let mut told = Vec::new();
    for (console, status) in statuses(client, catalog.as_deref()).await? {
        if rule.as_ref().is_some_and(|rule| status["rules"].get(rule).is_none()) {
            continue;
        }
        let args = rule.as_ref().map_or_else(|| json!({}), |rule| json!({ "rule": rule }));
        let answer = client.post(&console_url(&console, verb), &args).await?;
        told.push(json!({ "catalog": status["catalog"], "paused": answer["paused"] }));
    }
    if told.is_empty() {
        return Err(ClientError::Local("there is no such catalog, or rule".to_owned()));
    }
    if form.json {
        return Ok(form.print(&told));
    }
    let line = |one: &Value| {
        let paused: Vec<_> = one["paused"].as_array().into_iter().flatten().map(text).collect();
        let paused = if paused.is_empty() { "none".to_owned() } else { paused.join(", ") };
        format!("{}: paused: {paused}\n", text(&one["catalog"]))
    };
    Ok(told.iter().map(line).collect())
}

/// The consoles, and what each says.
async fn statuses(client: &Client, name: Option<&str>) -> Result<Vec<(String, Value)>, ClientError> {
    let answer = client.get(&tree_url(Some(BRANCH))).await?;
    let tree: TreeSnapshot = serde_json::from_value(answer)
        .map_err(|error| client.foreign(format!("this is no tree: {error}")))?;
    let mut told = Vec::new();
    for node in &tree.root.children {
        let console = format!("{BRANCH}/{}/{CONSOLE}", node.id);
        let status = client.post(&console_url(&console, "status"), &json!({})).await?;
        if name.is_none_or(|name| status["catalog"] == name) {
            told.push((console, status));
        }
    }
    Ok(told)
}

/// Orders a look and waits for its end; gives the status before and after.
async fn run_once(client: &Client, rule: &str, catalog: Option<&str>) -> Result<Value, ClientError> {
    let all = statuses(client, catalog).await?;
    let having: Vec<_> = all.iter().filter(|(_, status)| status["rules"].get(rule).is_some()).collect();
    let console = match having.as_slice() {
        [(console, _)] => console,
        [] => {
            let known: Vec<_> = all.iter().flat_map(|(_, status)| names(&status["rules"])).collect();
            return Err(ClientError::Local(format!(
                "there is no rule {rule}; there is {}",
                known.join(", ")
            )));
        }
        several => {
            let names: Vec<_> = several.iter().map(|(_, status)| text(&status["catalog"])).collect();
            let names = names.join(", ");
            return Err(ClientError::Local(format!(
                "several catalogs have a rule {rule}: give --catalog, one of {names}"
            )));
        }
    };
    let before =
        client.post(&console_url(console, "run-once"), &json!({ "rule": rule })).await?["before"].clone();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = client.post(&console_url(console, "status"), &json!({})).await?;
        let after = &status["rules"][rule];
        let looked = after["looks"].as_u64() > before["looks"].as_u64();
        let stuck = after["phase"] == "parked" || after["phase"] == "waiting" && after["reason"].is_string();
        if looked || stuck || Instant::now() > deadline {
            return Ok(json!({ "before": before, "after": after }));
        }
        sleep(AGAIN).await;
    }
}

/// What a look came to.
fn outcome(rule: &str, told: &Value) -> String {
    let (before, after) = (&told["before"], &told["after"]);
    let more =
        |name: &str| after[name].as_u64().unwrap_or(0).saturating_sub(before[name].as_u64().unwrap_or(0));
    if more("looks") == 0 {
        return format!("{rule} is {}: {}\n", text(&after["phase"]), text(&after["reason"]));
    }
    format!("{rule} has looked: {} claimed, {} done so far\n", more("claimed"), more("done"))
}

/// One catalog: a line on itself, a table of its rules, and what waits for people.
fn page(status: &Value) -> String {
    let notices =
        if status["notices"]["there"] == true { "notices arrive" } else { "no notices: polling alone" };
    let mut page = format!(
        "{} at {} as {}: {notices}\n",
        text(&status["catalog"]),
        text(&status["base"]),
        text(&status["agent"])
    );
    let head = [
        "RULE", "PHASE", "IN HAND", "WORKING", "CLAIMED", "DONE", "FAILED", "DEAD", "LOST", "BACK", "412",
        "LAG MS", "LOOKED",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let rules = status["rules"].as_object().cloned().unwrap_or_default();
    for (name, rule) in &rules {
        let keys = [
            "phase",
            "in_hand",
            "working",
            "claimed",
            "done",
            "failed",
            "dead",
            "lost",
            "held_back",
            "conflicts",
            "lag_ms",
            "looked",
        ];
        let cells = keys.map(|key| text(&rule[key]));
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    page.push_str(&align(&rows, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
    for (name, rule) in &rules {
        if rule["reason"].is_string() {
            page.push_str(&format!("{name}: {}: {}\n", text(&rule["phase"]), text(&rule["reason"])));
        }
        for (key, what) in [("unsettled", "look at this"), ("would_claim", "would claim")] {
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
    fn a_page_has_a_line_for_each_rule_and_for_what_waits_for_people() {
        let status = json!({
            "catalog": "lab", "base": "https://h/ermrest/catalog/1", "agent": "me:1", "paused": [],
            "notices": { "there": false, "count": 0 },
            "rules": {
                "convert": { "phase": "idle", "in_hand": 0, "working": 0, "claimed": 7, "done": 6, "failed": 1, "dead": 0, "lost": 0,
                    "held_back": 1, "conflicts": 0, "lag_ms": 12, "unsettled": ["RID = 1 cannot be written"] },
                "gone": { "phase": "parked", "reason": "409 Table not found", "claimed": 0 },
            },
        });
        let page = page(&status);
        assert!(
            page.starts_with("lab at https://h/ermrest/catalog/1 as me:1: no notices: polling alone\n"),
            "{page}"
        );
        let lines: Vec<_> = page.lines().collect();
        assert!(lines[2].starts_with("convert") && lines[2].contains(" 7 "), "{page}");
        assert_eq!(lines[4], "convert: look at this: RID = 1 cannot be written");
        assert_eq!(lines[5], "gone: parked: 409 Table not found");
    }

    #[test]
    fn a_look_tells_what_it_claimed_or_why_it_did_not() {
        let told = json!({ "before": { "looks": 1, "claimed": 2, "done": 2 }, "after": { "looks": 2, "claimed": 5, "done": 3 } });
        assert_eq!(outcome("r", &told), "r has looked: 3 claimed, 1 done so far\n");
        let told =
            json!({ "before": { "looks": 1 }, "after": { "looks": 1, "phase": "parked", "reason": "409" } });
        assert_eq!(outcome("r", &told), "r is parked: 409\n");
    }
}
