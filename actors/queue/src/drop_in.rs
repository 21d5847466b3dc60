//! The command lines that the queue replaces.

use std::path::PathBuf;

use clap::Subcommand;

use crate::config::QueueConfig;

/// Programs that can be replaced.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// nixpkgs-update's supervisor.py
    NixpkgsUpdateSupervisor {
        /// The SQLite file
        database_file: PathBuf,
        /// The directory that fetchers write to
        input_dir: PathBuf,
        /// The unix socket that workers connect to
        worker_socket: PathBuf,
    },
}

impl From<DropIn> for QueueConfig {
    /// `supervisor.py DB INPUT_DIR SOCKET` (CONTRACT QF02): exactly three positional paths.
    fn from(original: DropIn) -> Self {
        let DropIn::NixpkgsUpdateSupervisor { database_file, input_dir, worker_socket } = original;
        Self { database: database_file, input_dir, socket: worker_socket, ..Self::default() }
    }
}
