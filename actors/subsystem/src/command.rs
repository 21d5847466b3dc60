//! Context and errors of a subsystem's commands.

use std::{any::Any, future::Future, io::Write, path::PathBuf, pin::Pin};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, error::ErrorKind as ClapErrorKind};
use orchestrator_observe::TreeSnapshot;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    output::{OutputFormat, escape_lines, escape_strings},
    verb::{AnyVerb, Verb},
    wire::{ErrorBody, console_url, tree_url},
};

/// A request in flight. Behind a pointer, since the body of an `async fn` is compiled in each crate that
/// awaits it.
pub type CommandFuture<'a, T = Value> = Pin<Box<dyn Future<Output = Result<T, CommandError>> + 'a>>;

/// A running instance, reached through its admin endpoint.
pub trait Instance {
    /// Sends a GET request.
    fn get<'a>(&'a self, route: &'a str) -> CommandFuture<'a>;

    /// Sends a POST request once, without retries, so that a command is not executed twice.
    fn post<'a>(&'a self, route: &'a str, body: &'a Value) -> CommandFuture<'a>;

    /// Sends a GET request and passes the body of the response to `take` as it arrives, however long that
    /// takes. The future fails if `take` does, or if the response ends before its end.
    fn stream<'a>(
        &'a self,
        route: &'a str,
        take: &'a mut dyn FnMut(&[u8]) -> Result<(), CommandError>,
    ) -> CommandFuture<'a, ()>;

    /// Creates the error for a response that does not follow the protocol.
    fn unexpected_response(&self, reason: String) -> CommandError;
}

/// Loads the section of the named subsystem, as `--only` would: its `Subsystem::Config`.
pub type LoadSection<'a> = &'a dyn Fn(&ConfigArguments, &str) -> Result<Box<dyn Any>, CommandError>;

/// Everything that a command can use.
pub struct Context<'a> {
    /// The running instance. No connection is opened before the first request.
    pub instance: &'a dyn Instance,
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Loads a section; see [`Context::configuration`].
    pub load: LoadSection<'a>,
}

impl Context<'_> {
    /// Sends `verb` to the console of the child at `path` and returns the answer as JSON.
    ///
    /// # Errors
    /// The instance cannot be reached, or refuses the request.
    pub fn ask<'a>(&'a self, path: &str, verb: &dyn AnyVerb) -> CommandFuture<'a> {
        self.send(console_url(path, verb.name()), verb.arguments())
    }

    /// Sends a POST request with `body` and returns the response as JSON.
    pub(crate) fn send(&self, route: String, body: serde_json::Result<Value>) -> CommandFuture<'_> {
        Box::pin(async move {
            let body = body.map_err(|error| CommandError::Local(error.to_string()))?;
            self.instance.post(&route, &body).await
        })
    }

    /// Reads the answer to a verb, with its strings escaped.
    ///
    /// # Errors
    /// The instance has another version of the verb.
    pub fn read<V: Verb>(&self, answer: Value) -> Result<V::Answer, CommandError> {
        self.parse(answer)
    }

    /// Reads a response, with its strings escaped.
    pub(crate) fn parse<T: DeserializeOwned>(&self, response: Value) -> Result<T, CommandError> {
        serde_json::from_value(escape_strings(response)).map_err(|error| self.invalid(&error))
    }

    /// Formats the answer to `verb` for a terminal.
    pub(crate) fn text(&self, verb: &dyn AnyVerb, answer: Value) -> Result<String, CommandError> {
        verb.answer_text(escape_strings(answer)).map_err(|error| self.invalid(&error))
    }

    fn invalid(&self, error: &serde_json::Error) -> CommandError {
        self.instance.unexpected_response(format!("invalid response: {error}"))
    }

    /// Prints the answer to `verb`.
    ///
    /// # Errors
    /// Those of [`Context::read`] and [`Context::print`].
    pub fn show(
        &mut self,
        verb: &dyn AnyVerb,
        answer: Value,
        format: OutputFormat,
    ) -> Result<(), CommandError> {
        let text = if format.json { format.print(&answer) } else { self.text(verb, answer)? };
        self.print(&text)
    }

    /// Fetches the tree below `path`, with its strings escaped.
    ///
    /// # Errors
    /// The instance cannot be reached, or refuses the request.
    pub fn tree<'a>(&'a self, path: &str) -> CommandFuture<'a, TreeSnapshot> {
        let route = tree_url(Some(path));
        Box::pin(async move { self.parse(self.instance.get(&route).await?) })
    }

    /// Prints a result, with control characters escaped.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub fn print(&mut self, text: &str) -> Result<(), CommandError> {
        self.out.write_all(escape_lines(text).as_bytes())?;
        Ok(self.out.flush()?)
    }
}

/// Arguments that name a configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArguments {
    /// Read this TOML configuration file; repeatable, later files win [env: ORCHESTRATOR_CONFIG] [default:
    /// /etc/orchestrator/orchestrator.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Set one key, e.g. `--set queue.hold_secs=3600`; repeatable, wins over files and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
}

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An argument cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The connection to the instance failed.
    #[error(
        "cannot reach {target}: {reason}: is orchestrator running? name its endpoint with --url or --socket"
    )]
    Unreachable {
        /// Address that was tried.
        target: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The response did not arrive in time.
    #[error("no response from {target} within {seconds} s: a command may still be executed")]
    ResponseTimeout {
        /// Address that was asked.
        target: String,
        /// Time-out in seconds.
        seconds: u64,
    },
    /// The connection ended before the whole response arrived.
    #[error("lost the connection to {target} ({reason}): a command may have been executed")]
    ConnectionLost {
        /// Address that was asked.
        target: String,
        /// Error of the connection.
        reason: String,
    },
    /// The endpoint responded with an error.
    #[error("{}", .0.message)]
    ErrorResponse(ErrorBody),
    /// The response does not follow the protocol.
    #[error("unexpected response from {target} ({reason}): is another program listening there?")]
    UnexpectedResponse {
        /// Address that was asked.
        target: String,
        /// Part of the response that is wrong.
        reason: String,
    },
    /// The result could not be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] std::io::Error),
    /// Only a part of the work was done.
    #[error("{text}")]
    Incomplete {
        /// Description of the done and the missing part.
        text: String,
        /// True if a time-out ended the work.
        timed_out: bool,
        /// The last error.
        source: Box<CommandError>,
    },
    /// The configuration, a replaced program's file, or a file that they name, cannot be used.
    #[error("{0}")]
    Config(String),
    /// A command that needs no instance failed.
    #[error("{0}")]
    Local(String),
    /// The client's runtime could not be started.
    #[error("cannot start the client's runtime: {0}")]
    Setup(std::io::Error),
}

/// The command type of a subsystem without commands.
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
