//! Commands `orchestrator queue ..` beside the verbs.

mod copying;
mod dump;
mod export;
mod init;
mod migrate;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, Subsystem};

use crate::config::QueueConfig;

/// Publish the state of the queue, and move it
#[derive(Debug, Clone, Subcommand)]
pub enum QueueCommand {
    /// Write a static page about the queue for its users
    ///
    /// Reads the database directly, so no instance has to run. The page needs no server: it has all data in
    /// it.
    ///
    /// Example: orchestrator queue export --html /var/www/queue --every 5m
    Export(export::ExportArguments),
    /// Print the SQL that creates the tables on PostgreSQL, for an administrator who creates them in advance
    ///
    /// No instance has to run. The statements run as the role of the program, which owns the tables.
    ///
    /// Example: orchestrator queue init --print | psql -U queue
    Init(init::InitArguments),
    /// Move a queue from SQLite to PostgreSQL or back, while it is stopped
    ///
    /// The source is not changed. All rows, the log, jobs in flight, attempts, failures and the pause are
    /// copied and compared by checksum. A command that is interrupted starts over when it is repeated; before
    /// its end, no queue starts on the target. The configuration gives the schema and the
    /// name of the instance to which the fetchers of a SQLite file will belong (queue.postgres.schema,
    /// queue.postgres.instance or the file INPUT_DIR.instance): name that of the queue with --config.
    ///
    /// Example: orchestrator queue migrate --from sqlite:/var/lib/orchestrator/queue.db --to
    /// postgres:/etc/orchestrator/dsn --config FILE
    Migrate(migrate::MigrateArguments),
    /// Write all rows of a stopped queue to a file, as JSON lines
    ///
    /// The configuration names the queue, which is not changed. A line for each row follows a header; the
    /// last line has the numbers of rows and the SHA-256 of all lines before it. `queue load` reads the file.
    ///
    /// Example: orchestrator queue dump queue.jsonl --config FILE
    Dump(dump::DumpArguments),
    /// Fill an empty store from a file that `queue dump` has written
    ///
    /// The configuration names the store, which has no rows. The file is checked before anything is written,
    /// and compared with the store at the end. A command that is interrupted starts over when it is repeated;
    /// before its end, no queue starts on the store. On PostgreSQL the fetchers will belong to the configured
    /// instance.
    ///
    /// Example: orchestrator queue load queue.jsonl --config FILE
    Load(dump::LoadArguments),
}

/// Runs a command and prints its result. `S` is the queue subsystem.
pub(crate) async fn run<S: Subsystem<Config = QueueConfig>>(
    command: &QueueCommand,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    match command {
        QueueCommand::Export(arguments) => export::run::<S>(arguments, context).await,
        QueueCommand::Init(arguments) => init::run::<S>(arguments, context),
        QueueCommand::Migrate(arguments) => migrate::run::<S>(arguments, context),
        QueueCommand::Dump(arguments) => dump::dump::<S>(arguments, context),
        QueueCommand::Load(arguments) => dump::load::<S>(arguments, context),
    }
}
