//! Commands `orchestrator producer ..`.

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, Subsystem};

use crate::config::ProducerConfig;

mod plan;

/// Preview the work of a producer
#[derive(Debug, Clone, Subcommand)]
pub enum ProducerCommand {
    /// Count the jobs that remain to be pushed, without pushing any
    ///
    /// Reads the database directly, so no instance has to run.
    ///
    /// Example: orchestrator producer plan --config /etc/orchestrator/orchestrator.toml
    Plan(plan::PlanArguments),
}

/// Runs a command and prints its result. `S` is the producer subsystem.
pub(crate) async fn run<S: Subsystem<Config = ProducerConfig>>(
    command: &ProducerCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let ProducerCommand::Plan(arguments) = command;
    plan::run::<S>(arguments, context).await
}
