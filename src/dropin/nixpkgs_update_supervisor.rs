//! `supervisor.py DB INPUT_DIR SOCKET` of nixpkgs-update (contract: invocation): exactly three positional paths.

use std::path::PathBuf;

use clap::Args;
use orchestrator_queue::QueueConfig;

/// Its command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {
    /// The SQLite file
    database_file: PathBuf,
    /// The directory that fetchers write to
    input_dir: PathBuf,
    /// The unix socket that workers connect to
    worker_socket: PathBuf,
}

impl Arguments {
    pub(super) fn config(&self) -> QueueConfig {
        QueueConfig {
            database: self.database_file.clone(),
            input_dir: self.input_dir.clone(),
            socket: self.worker_socket.clone(),
            ..QueueConfig::default()
        }
    }
}
