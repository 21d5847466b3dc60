//! The trait that a subsystem's crate implements, once, for a type without fields.

use std::{error::Error, fmt};

use clap::Subcommand;
use orchestrator_supervise::ChildSpec;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    command::{CommandError, Context},
    section::Work,
};

/// A part of the program that is configured, started, asked and replaced on its own.
///
/// Only the first group of items has to be written out; the rest has defaults for a subsystem that lacks it. One without commands
/// or originals names [`NoCommand`](crate::NoCommand) for them.
pub trait Subsystem: Send + Sync + 'static {
    /// Section of the configuration: a table, or a `Vec` of tables that have a `name`.
    type Config: Clone
        + fmt::Debug
        + PartialEq
        + Serialize
        + DeserializeOwned
        + JsonSchema
        + Send
        + Sync
        + 'static;
    /// Everything that keeps the subsystem from starting.
    type Error: Error + Send + Sync + 'static;
    /// Commands below `orchestrator NAME`.
    type Command: Subcommand + Send + 'static;
    /// Command lines of the programs that it replaces, below `orchestrator as`.
    type DropIn: Subcommand + 'static;

    /// Name of the section, of the feature, of the branch of the tree, and of its commands.
    const NAME: &'static str;
    /// Description of the section in the schema.
    const DESCRIPTION: &'static str;
    /// Description of its commands in the help.
    const COMMANDS: &'static str = "";
    /// Tells whether it runs where nothing at all is configured.
    const RUNS_BY_DEFAULT: bool = false;

    /// Returns the branch of the tree. Nothing is started or touched yet.
    ///
    /// # Errors
    /// What the operator has to change; the text begins with the key.
    fn branch(config: &Self::Config) -> Result<Branch<Self::Config>, Self::Error>;

    /// Runs a command.
    ///
    /// # Errors
    /// As the command has it; the binary turns the error into an exit code.
    fn run(
        command: Self::Command,
        context: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), CommandError>>;

    /// Returns the configuration that does what the original would do with this command line.
    ///
    /// # Errors
    /// The original's own configuration file cannot be used.
    fn replace(original: Self::DropIn) -> Result<Self::Config, Self::Error>;

    /// Returns the section for `--only NAME` where none is configured.
    ///
    /// # Errors
    /// There is no useful default; the text says what to configure.
    fn default_config() -> Result<Self::Config, String>;

    /// Tells whether the section configures anything: an empty list does not.
    fn is_configured(config: &Self::Config) -> bool {
        let _ = config;
        true
    }

    /// Returns everything that a schema cannot refuse. Each text begins with `section.key = value`.
    fn check(config: &Self::Config) -> Vec<String> {
        let _ = config;
        Vec::new()
    }

    /// Creates missing directories, and finds what no restart would heal.
    ///
    /// # Errors
    /// Such as a database that another process has locked. A server that is away is none: it is waited for.
    fn preflight(config: &Self::Config) -> Result<(), Self::Error> {
        let _ = config;
        Ok(())
    }

    /// Returns lines for a person at a terminal: endpoints, and a first thing to try.
    fn greeting(config: &Self::Config) -> String {
        let _ = config;
        String::new()
    }

    /// Returns the work whose progress is shown at a terminal, if it has such.
    fn work(config: &Self::Config) -> Option<Work> {
        let _ = config;
        None
    }
}

/// Takes over what can change while the subsystem runs: from the second configuration into the first, which then describes what
/// runs. Returns the keys.
type Reload<C> = Box<dyn FnMut(&mut C, &C) -> Vec<String>>;

/// The branch of the tree that a configuration describes, and the way to change it while it runs.
pub struct Branch<C> {
    pub(crate) spec: ChildSpec,
    pub(crate) reload: Reload<C>,
}

impl<C> From<ChildSpec> for Branch<C> {
    /// A branch that takes no changes while it runs.
    fn from(spec: ChildSpec) -> Self {
        Self { spec, reload: Box::new(|_, _| Vec::new()) }
    }
}

impl<C> Branch<C> {
    /// A branch whose `reload` takes over what can change without a restart. `reload` returns the keys that it took over, and
    /// updates its first argument, which describes what runs.
    pub fn reloadable(spec: ChildSpec, reload: impl FnMut(&mut C, &C) -> Vec<String> + 'static) -> Self {
        Self { spec, reload: Box::new(reload) }
    }
}

impl<C> fmt::Debug for Branch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("spec", &self.spec).finish_non_exhaustive()
    }
}
