//! Commands `orchestrator provenance ..`: verbs of the client's console, an import, and the tables
//! of a new database.

mod backend;
mod import;
mod rows;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, columns::align, output::escape_strings};
use serde_json::{Value, json};

use self::{
    backend::{Backend, ClientOptions, SwhConfig},
    import::ImportArguments,
};
use crate::method::{Entity, Relation};
#[cfg(feature = "postgres")]
use crate::{edge::postgres, flavor::Flavor};

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
    /// Show the stored attributes of contents, directories, revisions or origins
    ///
    /// Example: orchestrator provenance get origin 3acef14580ea7fd42840ee905c5ce2b0ef9e8175
    Get {
        /// Kind of entity
        #[arg(value_parser = ["content", "directory", "revision", "origin"])]
        kind: String,
        /// Identifiers, 40 hex digits
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        form: OutputFormat,
        #[command(flatten)]
        swh: SwhConfig,
    },
    /// Show the earliest occurrence of a content
    ///
    /// Example: orchestrator provenance find-first 20329687bb9c1231a7e05afe86160343ad49b494
    FindFirst {
        /// Identifier of the content, 40 hex digits
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        form: OutputFormat,
        #[command(flatten)]
        swh: SwhConfig,
    },
    /// Show all occurrences of a content, earliest first
    ///
    /// Example: orchestrator provenance find-all 20329687bb9c1231a7e05afe86160343ad49b494 --limit 10
    FindAll {
        /// Identifier of the content, 40 hex digits
        #[arg(value_name = "ID")]
        id: String,
        /// Maximum number of occurrences
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        #[command(flatten)]
        form: OutputFormat,
        #[command(flatten)]
        swh: SwhConfig,
    },
    /// Print the rows of a relation, one JSON object per line
    ///
    /// Without identifiers all rows are printed. The order is not defined.
    ///
    /// Example: orchestrator provenance relations content_in_revision 20329687bb9c1231a7e05afe86160343ad49b494
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
    /// Show the dead letters: permanently refused rows with the reason, latest first
    ///
    /// Works with provenance.transport = "embedded". With RabbitMQ, read them from the queue
    /// orchestrator.provenance.dead_letter. Corrected rows can be imported again.
    ///
    /// Example: orchestrator provenance dead-letters --limit 10
    DeadLetters {
        /// Maximum number of rows [default: 200]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: Option<u32>,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Show the number of rows of each table
    ///
    /// Example: orchestrator provenance stats
    Stats {
        #[command(flatten)]
        form: OutputFormat,
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
        (None, Some(file)) => std::fs::read_to_string(file)
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
    let (verb, args, form, swh) = match command {
        ProvenanceCommand::Import(arguments) => return import::run(arguments, context).await,
        #[cfg(feature = "postgres")]
        ProvenanceCommand::Init(arguments) => {
            let text = init(arguments).await?;
            return context.print(&text);
        }
        ProvenanceCommand::Get { kind, ids, form, swh } => {
            ("get", json!({ "kind": kind, "ids": ids }), form, swh)
        }
        ProvenanceCommand::FindFirst { id, form, swh } => ("find-first", json!({ "id": id }), form, swh),
        ProvenanceCommand::FindAll { id, limit, form, swh } => {
            ("find-all", json!({ "id": id, "limit": limit }), form, swh)
        }
        ProvenanceCommand::DeadLetters { limit, form } => {
            ("dead-letters", json!({ "limit": limit }), form, &SwhConfig::default())
        }
        ProvenanceCommand::Stats { form, swh } => ("stats", json!({}), form, swh),
        ProvenanceCommand::Relations { relation, ids, reverse, swh } => {
            return list("relations", &relation_args(relation, ids, *reverse), swh, context).await;
        }
        ProvenanceCommand::Entities { kind, swh } => {
            return list("entities", &[argument("kind", kind)], swh, context).await;
        }
        ProvenanceCommand::Locations { swh } => return list("locations", &[], swh, context).await,
    };
    let backend = Backend::open(context.instance, swh, &ClientOptions::default()).await?;
    let answer = backend.ask(verb, &args).await;
    backend.close().await;
    let answer = answer?;
    context.print(&if form.json { form.print(&answer) } else { table(&escape_strings(answer)) })
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

/// Returns the arguments of the export `relations`.
fn relation_args(relation: &str, ids: &[String], is_reverse: bool) -> Vec<(String, String)> {
    let mut args = vec![argument("relation", relation)];
    args.extend(ids.iter().map(|id| argument("id", id)));
    args.extend(is_reverse.then(|| argument("reverse", "true")));
    args
}

/// Formats an answer as a table with a line for each entry.
fn table(answer: &Value) -> String {
    let rows: Vec<Vec<String>> = match answer {
        Value::Object(entries) => entries.iter().map(|(key, value)| line(Some(key), value)).collect(),
        Value::Array(entries) => entries.iter().map(|value| line(None, value)).collect(),
        other => vec![line(None, other)],
    };
    if rows.is_empty() { "nothing is stored about it\n".to_owned() } else { align(&rows, &[]) }
}

/// Returns the columns of an entry; those of an occurrence are ordered for reading.
fn line(key: Option<&String>, value: &Value) -> Vec<String> {
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut cells: Vec<String> = key.into_iter().cloned().collect();
    match value {
        Value::Object(fields) if fields.contains_key("revision") => {
            let path = fields.get("path").or_else(|| fields.get("path_hex"));
            let known = ["date", "revision", "origin"].iter().map(|name| fields.get(*name));
            cells.extend(known.chain([path]).map(|value| value.map_or_else(|| "-".to_owned(), plain)));
        }
        Value::Object(fields) if fields.contains_key("reason") => {
            cells.extend(
                ["times", "line", "reason"].map(|name| fields.get(name).map_or_else(String::new, plain)),
            );
        }
        Value::Object(fields) => cells.extend(fields.values().map(plain)),
        other => cells.push(plain(other)),
    }
    cells
}
