//! Command `orchestrator queue migrate`: moves a queue from one store to the other while it is stopped
//! (CONTRACT QD18).

use std::{path::PathBuf, str::FromStr, sync::Arc};

use clap::Args;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::Store;
use orchestrator_subsystem::{CommandError, ConfigArguments, Context, Subsystem};

use super::copying::{command_line, copy, failed, table};
use crate::{
    config::QueueConfig,
    migration::{Names, migrate},
};

/// Source and target.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct MigrateArguments {
    /// The queue that is read: `sqlite:PATH` of a database, or `postgres:FILE` with a connection string
    #[arg(long, value_name = "STORE")]
    from: Place,
    /// The store that becomes the queue: `postgres:FILE`, or `sqlite:PATH`; without rows
    #[arg(long, value_name = "STORE")]
    to: Place,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Store of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Sqlite(PathBuf),
    /// File with the connection string.
    Postgres(PathBuf),
}

impl Place {
    fn store(&self, config: &QueueConfig) -> Result<Arc<dyn Store>, StorageError> {
        match self {
            Self::Sqlite(path) => Ok(config.on_sqlite(path)),
            Self::Postgres(file) => config.on_postgres(file),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres", file)) if !file.is_empty() => Ok(Self::Postgres(file.into())),
            _ => Err("expected sqlite:PATH or postgres:FILE".to_owned()),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(file) => write!(f, "postgres:{}", file.display()),
        }
    }
}

/// Migrates, and prints the checksums.
pub(super) fn run<S: Subsystem<Config = QueueConfig>>(
    arguments: &MigrateArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let MigrateArguments { from, to, config: arguments } = arguments;
    if matches!(from, Place::Sqlite(_)) == matches!(to, Place::Sqlite(_)) {
        let usage = "one of --from and --to is a sqlite:PATH, and the other one is a postgres:FILE";
        return Err(CommandError::Usage(usage.to_owned()));
    }
    let config = context.configuration::<S>(arguments)?;
    let names = Names {
        source: from.to_string(),
        target: to.to_string(),
        command: command_line(&format!("migrate --from {from} --to {to}"), arguments),
    };
    let report = copy(|| {
        let mut source = from.store(&config)?.source()?;
        migrate(&mut *source, &mut *to.store(&config)?.target()?, &names)
    });
    let report = report.map_err(|error| failed(&format!("migrate {from} to {to}"), &error))?;
    let table = table(&report, "SHA-256 ON BOTH SIDES");
    context.print(&format!("{table}{to} has the queue of {from}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_kind_and_a_path() {
        for text in ["sqlite:/var/lib/queue.db", "postgres:dsn", "sqlite:a:b"] {
            assert_eq!(text.parse::<Place>().expect(text).to_string(), text);
        }
        for wrong in ["", "sqlite:", "postgres", "mysql:x", "/var/lib/queue.db"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
