//! Commands of the kernel to one child, on the command line and in requests.

use clap::{Args, Subcommand};
use orchestrator_supervise::{Command, PauseSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    command::{CommandError, Context},
    output::OutputFormat,
    until::Until,
    wire::{CommandResponse, REASON_LIMIT, actor_url},
};

/// Command to one child.
#[derive(Debug, Clone, Subcommand)]
pub enum ActorCommand {
    /// Restart a child; this does not count towards the restart intensity of its supervisor
    ///
    /// Example: orchestrator restart queue/fetcher_watcher --reason "new input directory"
    Restart(ActorArguments),
    /// Stop a child until it is started again
    ///
    /// Example: orchestrator stop queue/fetcher_watcher --reason "disk is being moved"
    Stop(ActorArguments),
    /// Start a stopped child
    ///
    /// Example: orchestrator start queue/fetcher_watcher
    Start(ActorArguments),
    /// Pause a child that takes in work: it accepts no new work and finishes queued work
    ///
    /// Example: orchestrator pause queue/inotify --until 30m --reason "too much at once"
    Pause(PauseArguments),
    /// Resume a paused child
    ///
    /// Example: orchestrator resume queue/inotify
    Resume(ActorArguments),
}

/// Arguments of a command to one child.
#[derive(Debug, Clone, Args)]
pub struct ActorArguments {
    /// Path of the child in `orchestrator tree`; a leading `orchestrator/` is optional
    path: String,
    #[command(flatten)]
    body: CommandArgs,
    #[command(flatten)]
    format: OutputFormat,
}

/// Arguments of a pause.
#[derive(Debug, Clone, Args)]
pub struct PauseArguments {
    #[command(flatten)]
    child: ActorArguments,
    /// Resume the child then: a duration (30m, 1d, 2w), or a time of day or date and time in the instance's
    /// time zone (18:00)
    #[arg(long, value_name = "TIME|DURATION")]
    until: Option<Until>,
}

/// Body of `POST /v1/actors/{path}/{verb}`; an empty body is `{}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize, JsonSchema)]
#[group(skip)]
#[serde(deny_unknown_fields, default)]
pub struct CommandArgs {
    /// Record this reason in the events and the audit log; at most 512 bytes
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    #[schemars(length(max = REASON_LIMIT))]
    pub reason: String,
    /// End of a pause
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

impl ActorCommand {
    fn parts(&self) -> (Command, &ActorArguments, Option<&Until>) {
        match self {
            Self::Restart(arguments) => (Command::Restart, arguments, None),
            Self::Stop(arguments) => (Command::Stop, arguments, None),
            Self::Start(arguments) => (Command::Start, arguments, None),
            Self::Pause(PauseArguments { child, until }) => {
                (Command::Pause(PauseSpan::default()), child, until.as_ref())
            }
            Self::Resume(arguments) => (Command::Resume, arguments, None),
        }
    }

    /// Sends the command and prints the response.
    ///
    /// # Errors
    /// The instance cannot be reached, or refuses the command.
    pub async fn run(&self, context: &mut Context<'_>) -> Result<(), CommandError> {
        let (command, ActorArguments { path, body, format }, until) = self.parts();
        let body = CommandArgs { until: until.cloned(), ..body.clone() };
        let response = context.send(actor_url(path, command.name()), serde_json::to_value(body)).await?;
        if format.json {
            return context.print(&format.print(&response));
        }
        let CommandResponse { path, before, after, .. } = context.parse(response)?;
        context.print(&format!("{path}: {before} -> {after}\n"))
    }
}
