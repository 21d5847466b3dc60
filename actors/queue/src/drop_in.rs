//! Command lines of the programs that the queue replaces.

use std::{ffi::OsString, path::PathBuf};

use clap::Subcommand;
use orchestrator_subsystem::OriginalContext;

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
        /// Arguments without effect
        #[arg(hide = true, allow_hyphen_values = true)]
        ignored: Vec<OsString>,
    },
}

impl DropIn {
    /// Maps `supervisor.py DB INPUT_DIR SOCKET` (CONTRACT QF02), which ignores further arguments.
    pub(crate) fn config(self, context: &mut OriginalContext) -> QueueConfig {
        let Self::NixpkgsUpdateSupervisor { database_file, input_dir, worker_socket, ignored } = self;
        if !ignored.is_empty() {
            let ignored: Vec<_> = ignored.iter().map(|argument| argument.to_string_lossy()).collect();
            context.warn(format!(
                "arguments after the third are ignored, as by supervisor.py: {}; options such as --set come right after the third",
                ignored.join(" ")
            ));
        }
        QueueConfig { database: database_file, input_dir, socket: worker_socket, ..QueueConfig::default() }
    }
}
