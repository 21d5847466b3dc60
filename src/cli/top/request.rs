//! The requests of `top`: the tree, the details of one child, and commands.

use orchestrator_subsystem::{
    CommandError,
    wire::{
        CommandArgs, CommandResponse, Crashes, TreeSnapshot, Why, actor_url, history_url, newest_crash_url,
        tree_url, why_url,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::{
    client::Client,
    top::{
        crash::{Crash, NewestCrash},
        details::{Details, History, METRICS, Subject},
        prompt::Command,
    },
};

/// Fetches the tree, or the branch at `path`.
pub(super) async fn fetch_tree(client: &Client, path: Option<&str>) -> Result<TreeSnapshot, CommandError> {
    parse(client, client.get(&tree_url(path)).await?, "tree")
}

/// Fetches the causes and the history of one child, and its newest crash unless it is known.
pub(super) async fn fetch_details(client: &Client, subject: &Subject) -> Result<Details, CommandError> {
    let why: Why = parse(client, client.get(&why_url(Some(&subject.path))).await?, "causes")?;
    let url = history_url(&subject.path, &METRICS, subject.since_ms, subject.is_branch);
    let history: History = parse(client, client.get(&url).await?, "history")?;
    Ok(Details::new(subject.path.clone(), why, &history, fetch_crash(client, subject).await?))
}

async fn fetch_crash(client: &Client, subject: &Subject) -> Result<Option<NewestCrash>, CommandError> {
    let Some(exit_ms) = subject.exit_ms.filter(|_| subject.known_crash.is_none()) else {
        return Ok(subject.known_crash.clone());
    };
    let crashes: Crashes =
        parse(client, client.get(&newest_crash_url(&subject.path)).await?, "crash reports")?;
    Ok(Some(NewestCrash { exit_ms, crash: Crash::newest(crashes) }))
}

/// Sends a command. It is never repeated.
pub(super) async fn send(client: &Client, command: &Command) -> Result<CommandResponse, CommandError> {
    let body = CommandArgs { reason: command.reason.clone() };
    let answer = client.post(&actor_url(&command.path, command.verb.name()), &body).await?;
    parse(client, answer, "response")
}

fn parse<T: DeserializeOwned>(client: &Client, answer: Value, name: &str) -> Result<T, CommandError> {
    serde_json::from_value(answer)
        .map_err(|error| client.unexpected_response(format!("invalid {name}: {error}")))
}
