//! The requests of `top`: the tree, the details of one child, and commands.

use orchestrator_subsystem::{
    CommandError,
    wire::{
        CommandArgs, CommandResponse, Crashes, TreeSnapshot, Why, actor_url, history_url, newest_crash_url,
        tree_url, why_url,
    },
};

use crate::cli::{
    client::{CRASHES_TIMEOUT, Client},
    top::{
        crash::{Crash, NewestCrash},
        details::{Details, History, METRICS, Subject},
        prompt::Command,
    },
};

/// Fetches the tree, or the branch at `path`.
pub(super) async fn fetch_tree(client: &Client, path: Option<&str>) -> Result<TreeSnapshot, CommandError> {
    client.fetch(&tree_url(path), "tree").await
}

/// Fetches the causes and the history of one child, and its newest crash unless it is known.
pub(super) async fn fetch_details(client: &Client, subject: &Subject) -> Result<Details, CommandError> {
    let why: Why = client.fetch(&why_url(Some(&subject.path)), "causes").await?;
    let url = history_url(&subject.path, &METRICS, subject.since_ms, subject.is_branch);
    let history: History = client.fetch(&url, "history").await?;
    Ok(Details::new(subject.path.clone(), why, &history, fetch_crash(client, subject).await?))
}

async fn fetch_crash(client: &Client, subject: &Subject) -> Result<Option<NewestCrash>, CommandError> {
    let Some(exit_ms) = subject.exit_ms.filter(|_| subject.known_crash.is_none()) else {
        return Ok(subject.known_crash.clone());
    };
    let crashes = client.get_within(&newest_crash_url(&subject.path), CRASHES_TIMEOUT).await?;
    let crashes: Crashes = client.read(crashes, "crash reports")?;
    Ok(Some(NewestCrash { exit_ms, crash: Crash::newest(crashes) }))
}

/// Sends a command. It is never repeated.
pub(super) async fn send(client: &Client, command: &Command) -> Result<CommandResponse, CommandError> {
    let body = CommandArgs { reason: command.reason.clone(), until: None };
    let answer = client.post(&actor_url(&command.path, command.verb.name), &body).await?;
    client.read(answer, "response")
}
