//! Commands `orchestrator queue dump` and `orchestrator queue load`: a queue as a file, while it is stopped
//! (CONTRACT QD18).

use std::{
    fs::{self, File},
    io::{BufWriter, Error},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::Store;
use orchestrator_subsystem::{CommandError, ConfigArguments, Context, Subsystem};

use super::copying::{command_line, copy, failed, table};
use crate::{
    config::QueueConfig,
    migration::{self, CopyReport, DumpFile, Names, migrate},
};

/// File to write.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct DumpArguments {
    /// The file; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    config: ConfigArguments,
}

/// File to read.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct LoadArguments {
    /// A file that `queue dump` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Writes the file, and prints the checksums.
pub(super) fn dump<S: Subsystem<Config = QueueConfig>>(
    DumpArguments { file, config }: &DumpArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let store = context.configuration::<S>(config)?.make_store();
    let shown = file.display();
    let report = copy(|| write(&*store, file))
        .map_err(|error| failed(&format!("dump the queue to {shown}"), &error))?;
    let table = table(&report, "SHA-256");
    context.print(&format!("{table}{shown} has the queue of {}\n", store.place()))
}

/// Only the owner can read the file, as the payloads may be confidential.
const FILE_MODE: u32 = 0o600;

fn write(store: &dyn Store, file: &Path) -> Result<CopyReport, StorageError> {
    let failed = |error: Error| {
        StorageError::new(StorageErrorKind::NotMigrated, format!("file {}: {error}", file.display()))
    };
    let mut source = store.source()?;
    let made = File::options().write(true).create_new(true).mode(FILE_MODE).open(file).map_err(failed)?;
    let mut out = BufWriter::new(made);
    let written = migration::dump(&mut *source, &mut out, &failed).and_then(|report| {
        out.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(|made| made.sync_all())
            .map_err(failed)?;
        Ok(report)
    });
    if written.is_err() {
        // The error of the dump is the one that counts.
        let _ = fs::remove_file(file);
    }
    written
}

/// Fills the store, and prints the checksums.
pub(super) fn load<S: Subsystem<Config = QueueConfig>>(
    LoadArguments { file, config }: &LoadArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let store = context.configuration::<S>(config)?.make_store();
    let names = Names {
        source: file.display().to_string(),
        target: store.place(),
        command: command_line(&format!("load {}", file.display()), config),
    };
    let report = copy(|| {
        let mut dump = DumpFile::open(file)?;
        migrate(&mut dump, &mut *store.target()?, &names)
    });
    let Names { source, target, .. } = &names;
    let report = report.map_err(|error| failed(&format!("load {source} into {target}"), &error))?;
    let table = table(&report, "SHA-256 ON BOTH SIDES");
    context.print(&format!("{table}{target} has the queue of {source}\n"))
}
