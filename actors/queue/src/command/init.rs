//! Command `orchestrator queue init --print`: the schema of a queue on PostgreSQL, which the first start
//! creates otherwise.

use clap::Args;
use orchestrator_subsystem::{CommandError, ConfigArguments, Context, Subsystem};

use crate::config::QueueConfig;

/// Use of the schema.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct InitArguments {
    /// Print the statements; nothing is run
    #[arg(long, required = true)]
    print: bool,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Prints the statements, with the schema's name of the configuration.
pub(super) fn run<S: Subsystem<Config = QueueConfig>>(
    arguments: &InitArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let config = context.configuration::<S>(&arguments.config)?;
    let tables = config.postgres_tables().map_err(|error| CommandError::Local(error.to_string()))?;
    context.print(&tables)
}
