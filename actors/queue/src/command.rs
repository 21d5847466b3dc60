//! Commands `orchestrator queue ..` beside the verbs.

mod export;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, Subsystem};

use crate::config::QueueConfig;

/// Publish the state of the queue
#[derive(Debug, Clone, Subcommand)]
pub enum QueueCommand {
    /// Write a static page about the queue for its users
    ///
    /// Reads the database directly, so no instance has to run. The page needs no server: it has all data in it.
    ///
    /// Example: orchestrator queue export --html /var/www/queue --every 5m
    Export(export::ExportArguments),
}

/// Runs a command and prints its result. `S` is the queue subsystem.
pub(crate) async fn run<S: Subsystem<Config = QueueConfig>>(
    command: &QueueCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let QueueCommand::Export(arguments) = command;
    export::run::<S>(arguments, context).await
}
