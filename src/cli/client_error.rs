//! What can go wrong with a client command, and the exit code that says so to a script.

use orchestrator_admin::wire::{ErrorBody, ErrorKind};

use crate::cli::exit_code::ExitCode;

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
    /// What needs no instance went wrong.
    #[cfg(feature = "provenance")]
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
            #[cfg(feature = "provenance")]
            ClientError::Local(_) => ExitCode::Failure,
            ClientError::Foreign { .. } | ClientError::Output(_) | ClientError::Setup(_) => ExitCode::Failure,
        }
    }
}
