//! The trait that a subsystem's crate implements once, for a type without fields.

use std::{error::Error, fmt, path::PathBuf};

use clap::Subcommand;
use orchestrator_exchange::Exchange;
use orchestrator_observe::MetricSnapshot;
use orchestrator_supervise::ChildSpec;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    backup_set::BackupSet,
    command::{CommandError, Context},
    original::{Original, OriginalContext},
    verbs::VerbCommand,
};

/// A part of the program with its own configuration, branch of the tree and commands.
///
/// Items without a default are mandatory. A subsystem without commands or drop-in command lines uses
/// [`NoCommand`](crate::NoCommand) for them.
pub trait Subsystem: Send + Sync + 'static {
    /// Section of the configuration: a table, or a `Vec` of tables with a `name`.
    type Config: Clone
        + fmt::Debug
        + PartialEq
        + Serialize
        + DeserializeOwned
        + JsonSchema
        + Send
        + Sync
        + 'static;
    /// Reasons why the subsystem cannot start.
    type Error: Error + Send + Sync + 'static;
    /// Commands below `orchestrator NAME`.
    type Command: Subcommand + Send + 'static;
    /// Command lines of the replaced programs, below `orchestrator as`.
    type DropIn: Subcommand + 'static;

    /// Name of the section, the Cargo feature, the branch of the tree and the commands.
    const NAME: &'static str;
    /// Description of the section in the schema.
    const DESCRIPTION: &'static str;
    /// Help text of `orchestrator NAME`.
    const COMMANDS_HELP: &'static str = "";
    /// Programs whose configuration `config init` takes over.
    const ORIGINALS: &'static [Original] = &[];
    /// True if the subsystem runs when no subsystem is configured.
    const RUNS_BY_DEFAULT: bool = false;

    /// Builds the branch of the tree without starting anything or opening a file or connection. Takes from
    /// `exchange` what other subsystems offer, and adds what this one offers.
    ///
    /// # Errors
    /// The configuration cannot be used. The text begins with the key to change.
    fn branch(config: &Self::Config, exchange: &mut Exchange) -> Result<Branch<Self::Config>, Self::Error>;

    /// Returns true if the subsystem offers jobs to the queue.
    fn offers_jobs(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// Returns the verbs of a console that are commands below `orchestrator NAME`, too.
    fn verbs() -> Vec<VerbCommand> {
        Vec::new()
    }

    /// Runs a command other than those of [`Subsystem::verbs`].
    ///
    /// # Errors
    /// The command failed. The binary turns the error into an exit code.
    fn run(
        command: Self::Command,
        context: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), CommandError>>;

    /// Converts the command line of a replaced program into the equivalent section. `context` has its
    /// environment and takes warnings.
    ///
    /// # Errors
    /// The configuration file of the replaced program cannot be used.
    fn drop_in_config(
        arguments: Self::DropIn,
        context: &mut OriginalContext,
    ) -> Result<Self::Config, Self::Error>;

    /// Returns the section for `--only NAME` if the configuration has none.
    ///
    /// # Errors
    /// There is no useful default. The text says what to configure.
    fn default_config() -> Result<Self::Config, String>;

    /// False for a section that configures nothing, such as an empty list.
    fn is_configured(config: &Self::Config) -> bool {
        let _ = config;
        true
    }

    /// Errors that the schema cannot express. Each text begins with `section.key = value`.
    fn check(config: &Self::Config) -> Vec<String> {
        let _ = config;
        Vec::new()
    }

    /// Creates missing directories and checks for faults that a restart cannot repair.
    ///
    /// # Errors
    /// Such a fault exists, for example a database that another process has locked. An unreachable server is
    /// no error: the subsystem reconnects.
    fn preflight(config: &Self::Config) -> Result<(), Self::Error> {
        let _ = config;
        Ok(())
    }

    /// Directory of the subsystem's database file; None if it has no such file. Other files about its
    /// instance belong there.
    fn state_dir(config: &Self::Config) -> Option<PathBuf> {
        let _ = config;
        None
    }

    /// Files that must survive a restart of the process, for backups. Each role is unique in the subsystem.
    fn files_to_back_up(config: &Self::Config) -> BackupSet {
        let _ = config;
        BackupSet::default()
    }

    /// Lines for the terminal of an interactive start: the name at column 2, endpoints at column 14, and
    /// below them a first command to try.
    fn greeting(config: &Self::Config) -> String {
        let _ = config;
        format!("  {:<12}orchestrator tree {}\n", Self::NAME, Self::NAME)
    }

    /// Source of the progress line that a terminal shows; None without finite work.
    fn progress(config: &Self::Config) -> Option<ProgressSource> {
        let _ = config;
        None
    }
}

/// Source of the progress line: a child with finite work and the metrics to show.
#[derive(Debug, Clone)]
pub struct ProgressSource {
    /// Path of the child, without the root.
    pub child: &'static str,
    /// True if the process exits once that child has ended and no other subsystem runs.
    pub ends: bool,
    /// Name of the counter whose rate the line shows.
    pub counter: &'static str,
    /// Formats the line from the child's metrics and the counter's rate per second.
    pub line: fn(metrics: &[MetricSnapshot], per_second: i64) -> String,
}

/// Applies the changes of the second configuration that need no restart, copies them into the first, and
/// returns their keys.
pub type Reload<C> = Box<dyn FnMut(&mut C, &C) -> Vec<String>>;

/// A branch of the tree with the function that reloads its configuration.
pub struct Branch<C> {
    /// Specification of the branch.
    pub spec: ChildSpec,
    /// Reload of the configuration.
    pub reload: Reload<C>,
}

impl<C> From<ChildSpec> for Branch<C> {
    /// Creates a branch whose configuration changes only with a restart.
    fn from(spec: ChildSpec) -> Self {
        Self { spec, reload: Box::new(|_, _| Vec::new()) }
    }
}

impl<C> Branch<C> {
    /// Creates a branch that applies some configuration changes without a restart. `reload` copies these
    /// changes from its second argument into its first, the running configuration, and returns their keys.
    pub fn reloadable(spec: ChildSpec, reload: impl FnMut(&mut C, &C) -> Vec<String> + 'static) -> Self {
        Self { spec, reload: Box::new(reload) }
    }
}

impl<C> fmt::Debug for Branch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("spec", &self.spec).finish_non_exhaustive()
    }
}
