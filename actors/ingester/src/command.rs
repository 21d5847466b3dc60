//! `orchestrator ingester ..`: commands that need no running instance.

mod tools;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context};

pub(crate) use self::tools::{PlayArguments, ProbeArguments};

/// Inspect the ingesters, probe and play sources
#[derive(Debug, Clone, Subcommand)]
pub enum IngesterCommand {
    /// Measure the messages of a source, without Redis
    ///
    /// Example: orchestrator ingester probe --source albaem tcp://detector:9999
    Probe(ProbeArguments),
    /// Play a dump or a raw capture as a source
    ///
    /// Example: orchestrator ingester play scan.cbors --to tcp://0.0.0.0:9999 --pace 1000/s
    Play(PlayArguments),
}

pub(crate) async fn run(command: &IngesterCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    match command {
        IngesterCommand::Probe(arguments) => arguments.run(context).await,
        IngesterCommand::Play(arguments) => arguments.run(context).await,
    }
}
