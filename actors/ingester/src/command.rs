//! `orchestrator ingester ..`: commands answered by the ingesters' consoles, and commands that need
//! no running instance.

mod tools;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, Verb};

use crate::verbs::Status;

/// Path of the subsystem in the tree.
const BRANCH: &str = "ingester";

pub(crate) use self::tools::{PlayArguments, ProbeArguments};

/// Inspect the ingesters, probe and play sources
#[derive(Debug, Clone, Subcommand)]
pub enum IngesterCommand {
    /// Show the mapping, the streams and the workers of each ingester
    ///
    /// Example: orchestrator ingester status
    Status {
        /// Show only the ingester with this name
        name: Option<String>,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Measure the messages of a source, without Redis
    ///
    /// Example: orchestrator ingester probe --source albaem tcp://detector:9999
    Probe(ProbeArguments),
    /// Play a dump or a raw capture as a source
    ///
    /// Example: orchestrator ingester play scan.cbors --to tcp://0.0.0.0:9999 --pace 1000/s
    Play(PlayArguments),
}

/// Runs a command and prints its answer.
pub(crate) async fn run(command: &IngesterCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    match command {
        IngesterCommand::Status { name, form } => status(name.as_ref(), *form, context).await,
        IngesterCommand::Probe(arguments) => arguments.run(context).await,
        IngesterCommand::Play(arguments) => arguments.run(context).await,
    }
}

async fn status(
    name: Option<&String>,
    format: OutputFormat,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let mut answers = Vec::new();
    for node in &context.tree(BRANCH).await?.root.children {
        if name.is_none_or(|name| node.label.as_ref() == Some(name)) {
            let console = format!("{BRANCH}/{}/ingester", node.id);
            answers.push(context.ask(&console, &Status {}).await?);
        }
    }
    if format.json {
        return context.print(&format.print(&answers));
    }
    if answers.is_empty() {
        return context.print("no such ingester\n");
    }
    let page = |answer| context.read::<Status>(answer).map(|answer| Status {}.text(&answer));
    let pages = answers.into_iter().map(page).collect::<Result<Vec<_>, _>>()?;
    context.print(&pages.join("\n"))
}
