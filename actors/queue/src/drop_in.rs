//! Command lines of the programs that the queue replaces.

use std::path::PathBuf;

use clap::Subcommand;

use crate::config::QueueConfig;

/// Programs with a compatible command line.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// Replace the `supervisor.py` of nixpkgs-update
    NixpkgsUpdateSupervisor {
        /// Path of the SQLite database
        database_file: PathBuf,
        /// Directory of the fetcher files
        input_dir: PathBuf,
        /// Path of the unix socket that workers connect to
        worker_socket: PathBuf,
    },
}

impl From<DropIn> for QueueConfig {
    /// Maps `supervisor.py DB INPUT_DIR SOCKET` (CONTRACT QF02), which has exactly three positional
    /// paths.
    fn from(original: DropIn) -> Self {
        let DropIn::NixpkgsUpdateSupervisor { database_file, input_dir, worker_socket } = original;
        Self { database: database_file, input_dir, socket: worker_socket, ..Self::default() }
    }
}
