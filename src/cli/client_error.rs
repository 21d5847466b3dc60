//! What can go wrong with a client command, and the exit code that says so to a script.

use std::time::Duration;

use orchestrator_admin::wire::{ErrorBody, ErrorKind};

use crate::cli::exit_code::ExitCode;

fn after(waited: Option<Duration>) -> String {
    waited.map(|waited| format!(" after {:.1} s", waited.as_secs_f64())).unwrap_or_default()
}

/// Standard input cannot be resumed.
fn on(file: &str) -> &'static str {
    if file == "-" { "" } else { ": --resume goes on from there" }
}

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The target is no address.
    #[error("{0}")]
    Usage(String),
    /// Nobody answers there.
    #[error(
        "cannot reach {target}: {reason}: is orchestrator running? name its endpoint with --url or --socket"
    )]
    Unreachable {
        /// Which address was tried.
        target: String,
        /// Why.
        reason: String,
    },
    /// It took too long.
    #[error("no answer from {target} within {seconds} s: a command may still be carried out")]
    Slow {
        /// Which address was asked.
        target: String,
        /// How long.
        seconds: u64,
    },
    /// The endpoint says no.
    #[error("{}", .0.message)]
    Answered(ErrorBody),
    /// Something answered, in another language.
    #[error("{target} does not answer as orchestrator does ({reason}): is something else listening there?")]
    Foreign {
        /// Which address was asked.
        target: String,
        /// What was odd.
        reason: String,
    },
    /// The result could not be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] std::io::Error),
    /// A piece of a file that was imported.
    #[error("lines {first} to {last} of {file} are not confirmed{}: {error}; what comes before is done with{}", after(*waited), on(file))]
    Unconfirmed {
        /// The file.
        file: String,
        /// Its first line that may not be stored.
        first: u64,
        /// The last one that was sent.
        last: u64,
        /// How long it was waited for, when that was as long as it was to be.
        waited: Option<Duration>,
        /// What was said last.
        error: Box<ClientError>,
    },
    /// The configuration, the original's file, or what they name.
    #[cfg(any(feature = "catalog", feature = "producer", feature = "provenance"))]
    #[error("{0}")]
    Config(String),
    /// What needs no instance went wrong.
    #[error("{0}")]
    Local(String),
    /// The client itself could not be set up.
    #[error("cannot set up the client: {0}")]
    Setup(std::io::Error),
}

impl ClientError {
    /// For scripts.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            ClientError::Usage(_) => ExitCode::Usage,
            #[cfg(any(feature = "catalog", feature = "producer", feature = "provenance"))]
            ClientError::Config(_) => ExitCode::Config,
            ClientError::Unconfirmed { waited: Some(_), .. } => ExitCode::TimedOut,
            ClientError::Unconfirmed { error, .. } => error.exit_code(),
            ClientError::Unreachable { .. } => ExitCode::Unreachable,
            ClientError::Slow { .. } => ExitCode::TimedOut,
            ClientError::Answered(body) => match body.error {
                ErrorKind::NotFound | ErrorKind::UnknownRoute => ExitCode::NotFound,
                ErrorKind::BadRequest
                | ErrorKind::Unauthorized
                | ErrorKind::Refused
                | ErrorKind::Forbidden
                | ErrorKind::TooLarge
                | ErrorKind::Unavailable => ExitCode::Refused,
                ErrorKind::TimedOut | ErrorKind::SlowBody => ExitCode::TimedOut,
                ErrorKind::MethodNotAllowed | ErrorKind::Unknown => ExitCode::Failure,
            },
            // A reader that went away has seen enough.
            ClientError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::Ok,
            ClientError::Local(_)
            | ClientError::Foreign { .. }
            | ClientError::Output(_)
            | ClientError::Setup(_) => ExitCode::Failure,
        }
    }
}
