//! Commands to a running instance, through its admin endpoint. They work even if children of the tree are
//! stuck.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod colour;
mod crashes;
mod event_stream;
pub(crate) mod exit_code;
mod found;
mod graph;
mod item;
mod open;
mod tail;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod top;
mod why;

use std::{any::Any, io::Write, path::Path};

use clap::Subcommand;
use orchestrator_admin::ascii::render;
use orchestrator_subsystem::{
    ActorCommand, CommandError, ConfigArguments, Context, OutputFormat,
    redaction::redact,
    wire::{ErrorKind, TreeSnapshot, Why, crashes_url, item_url, tree_url, why_url},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::target::Target;
use self::{
    client::{CRASHES_TIMEOUT, Client},
    exit_code::ExitCode,
    tail::TailArguments,
    top::TopArguments,
};
use crate::{
    backup,
    config::{Config, Sources},
    state_owner,
    subsystems::{Section, SubsystemCommand},
};

/// Commands to a running instance.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ClientCommand {
    /// Show the tree: state, restarts, mailbox depth and connection of each child
    ///
    /// Example: orchestrator tree queue
    Tree {
        /// Show only this child and its descendants; a leading `orchestrator/` is optional
        path: Option<String>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Watch the children: state, restarts, mailbox depth, rate, handling time and connection
    ///
    /// On a terminal, each table takes the place of the one before, until Ctrl-C.
    ///
    /// Example: orchestrator top queue --sort rate --interval 1
    Top(TopArguments),
    /// Follow the events of the tree: starts, exits, restarts, connections, commands
    ///
    /// Example: orchestrator tail queue --kind exited,commanded --text "disk full"
    Tail(TailArguments),
    /// Print the address of the web console
    ///
    /// Example: orchestrator open | xargs xdg-open
    Open {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Explain why work is delayed: the causes, most important first, each with a command that helps; or tell
    /// where one job, row or mapping is, and what it waits for
    ///
    /// Exit codes for an item: 0 if it is known, 1 if it waits for a cause, 2 if it is unknown.
    ///
    /// Example: orchestrator why python3Packages.requests
    Why {
        /// Show only this child and its descendants; or the attribute path of a job, `catalog/NAME/RULE/KEY`,
        /// the uuid of a mapping, a stencil `(j,k)`, a sha1 of provenance or the id of a dead letter
        #[arg(value_name = "PATH|ITEM")]
        path: Option<String>,
        /// Exit with code 1 if there is a cause
        #[arg(long)]
        exit_code: bool,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Exit with code 0 if all children are ready, else with 1 and the reasons, for the health check of a
    /// container
    ///
    /// Children that are paused or blocked are named, too; they are ready.
    ///
    /// Example: orchestrator health
    Health,
    /// Show the last crashes of each child: panic or fault, position in the source, message type, events and
    /// metrics before it
    ///
    /// Example: orchestrator crashes queue/queue_store
    Crashes {
        /// Show only this child and its descendants; a leading `orchestrator/` is optional
        path: Option<String>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Print the tree in the dot language of Graphviz, or as lists of nodes and edges
    ///
    /// Example: orchestrator graph | dot -Tsvg -o tree.svg
    Graph {
        /// Show only this child and its descendants; a leading `orchestrator/` is optional
        path: Option<String>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// A command to a child
    #[command(flatten)]
    Actor(ActorCommand),
    /// A command of a subsystem
    #[command(flatten)]
    Subsystem(SubsystemCommand),
}

impl ClientCommand {
    fn prints_json(&self) -> bool {
        let format = match self {
            Self::Tree { format, .. }
            | Self::Why { format, .. }
            | Self::Crashes { format, .. }
            | Self::Graph { format, .. }
            | Self::Open { format } => format,
            Self::Top(arguments) => &arguments.format,
            // `tail` escapes each event, and the others escape their texts.
            Self::Tail(_) | Self::Health => return false,
            Self::Actor(_) | Self::Subsystem(_) => return true,
        };
        format.json
    }
}

/// Runs `command`, prints its result to `out` and an error to standard error. Blocks, so it must not be
/// called on an arbiter.
pub(crate) fn run(command: &ClientCommand, target: &Target, out: &mut dyn Write) -> ExitCode {
    match execute(command, target, out) {
        Ok(code) => code,
        Err(error) => {
            let code = ExitCode::of(&error);
            if code != ExitCode::Ok {
                // If standard error is closed, the exit code still reports the error.
                let text = colour::error_line(&redact(&error.to_string()));
                let _ = std::io::stderr().lock().write_all(text.as_bytes());
            }
            code
        }
    }
}

/// Sends `command` to the instance and prints the result to `out`.
///
/// # Errors
/// The instance is unreachable or refuses the command.
pub(crate) fn execute(
    command: &ClientCommand,
    target: &Target,
    out: &mut dyn Write,
) -> Result<ExitCode, CommandError> {
    let (address, is_named) = target.address(|name| std::env::var_os(name), Path::new("/run"))?;
    let token = target.token_for(&address, is_named)?;
    let client = Client::new(address, token, command.prints_json());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::Setup)?;
    // A system, since some commands run a tree in this process.
    actix_rt::System::with_tokio_rt(move || runtime).block_on(async {
        let mut context = Context { instance: &client, out, load: &load };
        match command {
            ClientCommand::Top(arguments) => top::run(arguments, &client, out).await?,
            ClientCommand::Tail(arguments) => tail::run(arguments, &client, out).await?,
            ClientCommand::Subsystem(command) => command.run(&mut context).await?,
            ClientCommand::Actor(command) => command.run(&mut context).await?,
            ClientCommand::Tree { path, format } => {
                let response = client.get(&tree_url(path.as_deref())).await?;
                let table = |tree: &TreeSnapshot| {
                    colour::for_stdout(&colour::fit_stdout(&render(tree)), graph::line_colours(tree))
                };
                write(&present(&client, response, "tree", *format, table)?, context.out)?;
            }
            ClientCommand::Why { path, exit_code, format } => {
                let response = match (client.get(&why_url(path.as_deref())).await, path) {
                    // No child has this name.
                    (Err(CommandError::ErrorResponse(body)), Some(item))
                        if body.error == ErrorKind::NotFound =>
                    {
                        let response = client.get(&item_url(item)).await?;
                        let code = item::code(&client.read(response.clone(), "item")?);
                        write(&present(&client, response, "item", *format, item::render)?, context.out)?;
                        return Ok(code);
                    }
                    (response, _) => response?,
                };
                let is_blocked = why::is_blocked(&response);
                let list = |why: &Why| {
                    let text = why::render(why);
                    colour::for_stdout(&text, why::line_colours(&text))
                };
                write(&present(&client, response, "causes", *format, list)?, context.out)?;
                if *exit_code && is_blocked {
                    return Ok(ExitCode::Failure);
                }
            }
            ClientCommand::Health => {
                let (is_ready, text) = client.probe("/readyz").await?;
                write(&text, context.out)?;
                // Readiness is known, whatever the answer.
                if let Ok(why) = client.fetch::<Why>(&why_url(None), "causes").await {
                    write(&why::held_lines(&why, &text), context.out)?;
                }
                return Ok(if is_ready { ExitCode::Ok } else { ExitCode::Failure });
            }
            _ => context.print(&request(command, &client).await?)?,
        }
        Ok(ExitCode::Ok)
    })
}

/// Prints a text without control characters of others.
fn write(text: &str, out: &mut dyn Write) -> Result<(), CommandError> {
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Runs a command that consists of one request, and formats the response.
async fn request(command: &ClientCommand, client: &Client) -> Result<String, CommandError> {
    match command {
        ClientCommand::Crashes { path, format } => {
            let answer = client.get_within(&crashes_url(path.as_deref()), CRASHES_TIMEOUT).await?;
            present(client, answer, "crash reports", *format, crashes::render)
        }
        ClientCommand::Open { format } => open::run(*format, client).await,
        ClientCommand::Graph { path, format } => {
            let tree = client.fetch(&tree_url(path.as_deref()), "tree").await?;
            Ok(if format.json { format.print(&graph::lists(&tree)) } else { graph::dot(&tree) })
        }
        // `execute` runs these.
        ClientCommand::Top(_)
        | ClientCommand::Tail(_)
        | ClientCommand::Tree { .. }
        | ClientCommand::Why { .. }
        | ClientCommand::Health
        | ClientCommand::Actor(_)
        | ClientCommand::Subsystem(_) => Ok(String::new()),
    }
}

/// Loads the section of the subsystem `only`.
fn load(arguments: &ConfigArguments, only: &str) -> Result<Box<dyn Any>, CommandError> {
    let sources = Sources::new(arguments, Some(only)).announced();
    let config = Config::load(&sources);
    let mut config = config.map_err(|error| CommandError::Config(format!("{error:#}")))?;
    let local = |error: anyhow::Error| CommandError::Local(format!("{error:#}"));
    // Before the command opens a file of the subsystem.
    if let Some(owner) = state_owner::of_state(&config).map_err(local)? {
        return Err(local(owner.go_on()));
    }
    backup::recover(&config, Some(&sources)).map_err(local)?;
    let section = config.sections.pop().map(Section::into_config);
    section.ok_or_else(|| CommandError::Config(format!("{only}: the configuration has no such section")))
}

/// Formats a response, by `render` unless JSON is wanted; `name` names it in an error.
fn present<T: DeserializeOwned>(
    client: &Client,
    response: Value,
    name: &str,
    format: OutputFormat,
    render: impl Fn(&T) -> String,
) -> Result<String, CommandError> {
    if format.json {
        return Ok(format.print(&response));
    }
    client.read(response, name).map(|response| render(&response))
}
