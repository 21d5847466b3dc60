//! Command `orchestrator queue migrate`: moves a queue from one store to the other while it is stopped
//! (CONTRACT QD18).

use std::{fmt::Write as _, path::PathBuf, str::FromStr};

use clap::Args;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_sqlite::{SqliteSource, SqliteTarget};
use orchestrator_subsystem::{CommandError, ConfigArguments, Context, Subsystem};

use crate::{
    config::QueueConfig,
    migration::{Names, Report, migrate},
};

/// Source and target.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct MigrateArguments {
    /// The queue that is read: `sqlite:PATH` of a database, or `postgres:FILE` with a connection string
    #[arg(long, value_name = "STORE")]
    from: Store,
    /// The store that becomes the queue: `postgres:FILE`, or `sqlite:PATH`; without rows
    #[arg(long, value_name = "STORE")]
    to: Store,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Place of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Store {
    Sqlite(PathBuf),
    /// File with the connection string.
    Postgres(PathBuf),
}

impl FromStr for Store {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres", file)) if !file.is_empty() => Ok(Self::Postgres(file.into())),
            _ => Err("expected sqlite:PATH or postgres:FILE".to_owned()),
        }
    }
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(file) => write!(f, "postgres:{}", file.display()),
        }
    }
}

/// Migrates, or continues a migration, and prints the checksums.
pub(super) async fn run<S: Subsystem<Config = QueueConfig>>(
    arguments: &MigrateArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let config = context.configuration::<S>(&arguments.config)?;
    let names = Names {
        source: arguments.from.to_string(),
        target: arguments.to.to_string(),
        command: command(arguments),
    };
    // Its sessions block, which this runtime does not permit on its own thread.
    let done = std::thread::scope(|scope| {
        let worker = scope.spawn(|| move_queue(&arguments.from, &arguments.to, &config, &names));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let report = done.map_err(|error| match error {
        Failed::SameKind => CommandError::Usage(
            "one of --from and --to is a sqlite:PATH, and the other one is a postgres:FILE".to_owned(),
        ),
        Failed::Storage(error) => {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
            CommandError::Local(format!(
                "cannot migrate {} to {}: {error}{cause}",
                names.source, names.target
            ))
        }
    })?;
    context.print(&text(&report, &names))
}

/// Reason why nothing was migrated.
enum Failed {
    SameKind,
    Storage(StorageError),
}

impl From<StorageError> for Failed {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

fn move_queue(from: &Store, to: &Store, config: &QueueConfig, names: &Names) -> Result<Report, Failed> {
    Ok(match (from, to) {
        (Store::Sqlite(path), Store::Postgres(file)) => {
            let mut source = SqliteSource::open(path)?;
            migrate(&mut source, &mut *config.postgres_target(file, "--to")?, names)?
        }
        (Store::Postgres(file), Store::Sqlite(path)) => {
            let mut source = config.postgres_source(file, "--from")?;
            migrate(&mut *source, &mut SqliteTarget::open(path)?, names)?
        }
        (Store::Sqlite(_), Store::Sqlite(_)) | (Store::Postgres(_), Store::Postgres(_)) => {
            return Err(Failed::SameKind);
        }
    })
}

fn command(arguments: &MigrateArguments) -> String {
    let mut command = format!("orchestrator queue migrate --from {} --to {}", arguments.from, arguments.to);
    for file in &arguments.config.config {
        let _ = write!(command, " --config {}", file.display());
    }
    for assignment in &arguments.config.set {
        let _ = write!(command, " --set {assignment}");
    }
    command
}

fn text(report: &Report, names: &Names) -> String {
    let mut text = String::from("TABLE          ROWS  SHA-256 ON BOTH SIDES\n");
    for (table, rows, checksum) in &report.tables {
        let _ = writeln!(text, "{table:<8} {rows:>10}  {checksum}");
    }
    let _ = writeln!(text, "{:<19}  {}", "all", report.checksum);
    let _ = writeln!(text, "{} has the queue of {}", names.target, names.source);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_kind_and_a_path() {
        for text in ["sqlite:/var/lib/queue.db", "postgres:dsn", "sqlite:a:b"] {
            assert_eq!(text.parse::<Store>().expect(text).to_string(), text);
        }
        for wrong in ["", "sqlite:", "postgres", "mysql:x", "/var/lib/queue.db"] {
            assert!(wrong.parse::<Store>().is_err(), "{wrong}");
        }
    }
}
