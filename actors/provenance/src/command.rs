//! Commands `orchestrator provenance ..` beside the verbs: exports, an import, and the tables of a new
//! database.

mod backend;
mod import;
mod rows;

use clap::Subcommand;
use orchestrator_subsystem::{
    CommandError, Context, Explain, OutputFormat, Verb, Verbs, command::CommandFuture, route::Route,
};
use orchestrator_supervise::Handle;

pub(crate) use self::backend::CONSOLE;
use self::{
    backend::{Backend, ClientOptions, SwhConfig},
    import::ImportArguments,
};
#[cfg(feature = "postgres")]
use crate::{edge::postgres, flavor::Flavor};
use crate::{
    method::{Entity, Relation},
    rmq_client::RmqClient,
    verbs::{Add, FindAll, FindFirst, Get, ListDeadLetters, Stats, WaitAdded},
};

/// Add and query provenance rows.
#[derive(Debug, Clone, Subcommand)]
pub enum ProvenanceCommand {
    /// Add the rows of a file with one JSON object per line
    ///
    /// Rows that are already stored stay as they are, so an import can be repeated.
    ///
    /// Example: orchestrator provenance import rows.jsonl
    Import(ImportArguments),
    #[cfg(feature = "postgres")]
    /// Create the tables of the original's schema version 1 in a PostgreSQL database
    ///
    /// Existing tables are not changed. A database of another flavor or version is refused.
    ///
    /// Example: orchestrator provenance init --dsn postgresql://postgres@localhost/provenance
    Init(InitArguments),
    /// Print the rows of a relation, one JSON object per line
    ///
    /// Without identifiers all rows are printed. The order is not defined.
    ///
    /// Example: orchestrator provenance relations content_in_revision
    /// 20329687bb9c1231a7e05afe86160343ad49b494
    Relations {
        /// Relation
        #[arg(value_parser = Relation::ALL.map(Relation::value))]
        relation: String,
        /// Identifiers of sources, 40 hex digits; at most 1,000
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// The identifiers are those of destinations
        #[arg(long, requires = "ids")]
        reverse: bool,
        #[command(flatten)]
        swh: SwhConfig,
    },
    /// Print the identifiers of all contents, directories, revisions or origins, one JSON object per line
    ///
    /// Example: orchestrator provenance entities revision
    Entities {
        /// Kind of entity
        #[arg(value_parser = Entity::ALL.map(Entity::value))]
        kind: String,
        #[command(flatten)]
        swh: SwhConfig,
    },
    /// Print all locations (paths of contents in directories), one JSON object per line
    ///
    /// With MongoDB, which stores no locations, these are the paths of relations; a path may appear more
    /// than once.
    ///
    /// Example: orchestrator provenance locations
    Locations {
        #[command(flatten)]
        swh: SwhConfig,
    },
}

/// Arguments of `init`.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct InitArguments {
    /// Address of the database
    #[arg(long, value_name = "DSN", required_unless_present = "dsn_file")]
    dsn: Option<String>,
    /// File that contains the DSN; use it for a DSN with a password
    #[arg(long, value_name = "FILE", conflicts_with = "dsn")]
    dsn_file: Option<std::path::PathBuf>,
    /// with-path, without-path, with-path-denormalized or without-path-denormalized
    #[arg(long, default_value = "with-path")]
    flavor: Flavor,
}

#[cfg(feature = "postgres")]
/// Creates the tables, over a connection of its own instead of a running instance.
async fn init(arguments: &InitArguments) -> Result<String, CommandError> {
    let InitArguments { dsn, dsn_file, flavor } = arguments;
    let dsn = match (dsn, dsn_file) {
        (Some(dsn), _) => dsn.clone(),
        (None, Some(file)) => orchestrator_edge::read_text(file)
            .map_err(|error| CommandError::Usage(format!("cannot read {}: {error}", file.display())))?,
        (None, None) => {
            return Err(CommandError::Usage("name a database with --dsn or --dsn-file".to_owned()));
        }
    };
    let made = postgres::init(dsn.trim(), *flavor).await;
    made.map_err(|error| CommandError::Local(error.to_string()))?;
    Ok(format!("the tables of flavor {flavor} exist\n"))
}

/// Runs a command and prints its result.
pub(crate) async fn run(command: &ProvenanceCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    match command {
        ProvenanceCommand::Import(arguments) => import::run(arguments, context).await,
        #[cfg(feature = "postgres")]
        ProvenanceCommand::Init(arguments) => {
            let text = init(arguments).await?;
            context.print(&text)
        }
        ProvenanceCommand::Relations { relation, ids, reverse, swh } => {
            list("relations", &relation_args(relation, ids, *reverse), swh, context).await
        }
        ProvenanceCommand::Entities { kind, swh } => {
            list("entities", &[argument("kind", kind)], swh, context).await
        }
        ProvenanceCommand::Locations { swh } => list("locations", &[], swh, context).await,
    }
}

pub(crate) fn verbs() -> Verbs<RmqClient> {
    Verbs::default()
        .without_command::<Add>()
        .without_command::<WaitAdded>()
        .by::<SwhConfig, Get>()
        .by::<SwhConfig, FindFirst>()
        .by::<SwhConfig, FindAll>()
        .by::<SwhConfig, Stats>()
        .with::<ListDeadLetters>()
        .without_command::<Explain>()
}

impl Route<RmqClient> for SwhConfig {
    fn show<'a, V: Verb>(
        &'a self,
        path: &'static str,
        verb: &'a V,
        format: OutputFormat,
        context: &'a mut Context<'_>,
    ) -> CommandFuture<'a, ()>
    where
        RmqClient: Handle<V>,
    {
        Box::pin(async move {
            let backend = Backend::open(context.instance, self, &ClientOptions::default()).await?;
            let answer = backend.ask(path, verb).await;
            backend.close().await;
            context.show(verb, answer?, format)
        })
    }
}

/// Prints the rows of the export `name`.
async fn list(
    name: &str,
    args: &[(String, String)],
    swh: &SwhConfig,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let backend = Backend::open(context.instance, swh, &ClientOptions::default()).await?;
    let printed = rows::print(&backend, name, args, context.out).await;
    backend.close().await;
    printed
}

fn argument(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Arguments of the export `relations`.
fn relation_args(relation: &str, ids: &[String], is_reverse: bool) -> Vec<(String, String)> {
    let mut args = vec![argument("relation", relation)];
    args.extend(ids.iter().map(|id| argument("id", id)));
    args.extend(is_reverse.then(|| argument("reverse", "true")));
    args
}
