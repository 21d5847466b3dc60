//! Commands of a subsystem: what they have at hand, and how they fail.

use std::{future::Future, io::Write, path::PathBuf, pin::Pin};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, error::ErrorKind as ClapErrorKind};
use orchestrator_supervise::TreeSnapshot;
use serde_json::Value;

use crate::{
    output::{Form, escaped, printable},
    section::Section,
    wire::{ErrorBody, console_url, tree_url},
};

/// A request under way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Value, CommandError>> + 'a>>;

/// A running instance, reached over its admin endpoint.
pub trait Instance {
    /// Reads a route, without changing anything.
    fn get<'a>(&'a self, route: &'a str) -> Answering<'a>;

    /// Sends a command. It is sent once: an operator's command must not be carried out twice.
    fn post<'a>(&'a self, route: &'a str, body: &'a Value) -> Answering<'a>;

    /// Returns the error for an answer that makes no sense.
    fn foreign(&self, reason: String) -> CommandError;
}

/// Reads the configuration with `--only` the given subsystem.
pub type LoadSection<'a> = &'a dyn Fn(&ConfigArguments, &str) -> Result<Section, CommandError>;

/// Everything that a command has at hand.
pub struct Context<'a> {
    /// The running instance. Commands that need none leave it alone.
    pub instance: &'a dyn Instance,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// See [`Context::configuration`].
    pub load: LoadSection<'a>,
}

impl Context<'_> {
    /// Sends `verb` to the console of the child at `path`. The texts of the answer are escaped, unless it is printed as JSON.
    ///
    /// # Errors
    /// The instance cannot be reached, or refused.
    pub async fn ask(
        &self,
        path: &str,
        verb: &str,
        arguments: &Value,
        form: Form,
    ) -> Result<Value, CommandError> {
        let answer = self.instance.post(&console_url(path, verb), arguments).await?;
        Ok(if form.json { answer } else { escaped(answer) })
    }

    /// Returns the part of the tree from `path` on, with its texts escaped.
    ///
    /// # Errors
    /// The instance cannot be reached, or refused.
    pub async fn tree(&self, path: &str) -> Result<TreeSnapshot, CommandError> {
        let answer = escaped(self.instance.get(&tree_url(Some(path))).await?);
        serde_json::from_value(answer)
            .map_err(|error| self.instance.foreign(format!("this is no tree: {error}")))
    }

    /// Prints a result.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn print(&mut self, text: &str) -> Result<(), CommandError> {
        self.out.write_all(printable(text).as_bytes())?;
        Ok(self.out.flush()?)
    }
}

/// Arguments that name a configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArguments {
    /// A TOML file with configuration; may be repeated, later files win
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// One value, e.g. `--set queue.hold_secs=3600`; may be repeated, wins over files and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
}

/// Reason why a command has no result.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An argument cannot be used.
    #[error("{0}")]
    Usage(String),
    /// No connection to the instance.
    #[error(
        "cannot reach {target}: {reason}: is orchestrator running? name its endpoint with --url or --socket"
    )]
    Unreachable {
        /// Address that was tried.
        target: String,
        /// Error of the operating system.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {target} within {seconds} s: a command may still be carried out")]
    Slow {
        /// Address that was asked.
        target: String,
        /// Time-out in seconds.
        seconds: u64,
    },
    /// The endpoint refused.
    #[error("{}", .0.message)]
    Answered(ErrorBody),
    /// An answer that makes no sense.
    #[error("{target} does not answer as orchestrator does ({reason}): is something else listening there?")]
    Foreign {
        /// Address that was asked.
        target: String,
        /// The odd part.
        reason: String,
    },
    /// The result could not be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] std::io::Error),
    /// Only a part was done.
    #[error("{text}")]
    Incomplete {
        /// What is done and what is not.
        text: String,
        /// Tells whether the rest was given up because its time was over.
        timed_out: bool,
        /// The last error.
        source: Box<CommandError>,
    },
    /// The configuration, the original's file, or what they name.
    #[error("{0}")]
    Config(String),
    /// A command that asks no instance failed.
    #[error("{0}")]
    Local(String),
    /// The client itself could not be set up.
    #[error("cannot set up the client: {0}")]
    Setup(std::io::Error),
}

/// No command at all.
#[derive(Debug, Clone, Copy)]
pub enum NoCommand {}

impl FromArgMatches for NoCommand {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Err(clap::Error::new(ClapErrorKind::InvalidSubcommand))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        match *self {}
    }
}

impl Subcommand for NoCommand {
    fn augment_subcommands(command: Command) -> Command {
        command
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command
    }

    fn has_subcommand(_: &str) -> bool {
        false
    }
}
