//! The exit codes of all commands, as in `--help` and deploy/RUNBOOK.md.

use orchestrator_subsystem::{CommandError, wire::ErrorKind};

/// Exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// Success.
    Ok = 0,
    /// A failure without a code of its own.
    Failure = 1,
    /// The command line is invalid; clap uses the same code.
    Usage = 2,
    /// The endpoint of the running instance is unreachable.
    Unreachable = 3,
    /// There is no such child, console, verb or job.
    NotFound = 4,
    /// The running instance refused the request.
    Refused = 5,
    /// The response, or the confirmation of the effect, did not arrive.
    Unconfirmed = 6,
    /// The root supervisor gave up (EX_SOFTWARE).
    GaveUp = 70,
    /// The configuration, or a resource that it names, prevents the start (EX_CONFIG).
    Config = 78,
    /// A second signal ended the program before it had drained.
    Killed = 137,
}

impl ExitCode {
    /// The table for `--help`.
    pub(crate) const TABLE: &str = "\
Exit codes:
  0    done
  1    failed for a reason that no other code describes
  2    the command line is invalid
  3    the running instance is unreachable
  4    the child, its command, or the job does not exist
  5    the running instance refused the request
  6    no response, or no confirmation of the effect, arrived; the command may still take effect
  70   the root supervisor gave up
  78   the configuration, or a resource that it names, prevents the start
  137  a second signal ended the program before it finished queued work";
}

impl ExitCode {
    pub(crate) fn of(error: &CommandError) -> Self {
        match error {
            CommandError::Usage(_) => Self::Usage,
            CommandError::Config(_) => Self::Config,
            CommandError::Incomplete { timed_out: true, .. } => Self::Unconfirmed,
            CommandError::Incomplete { source, .. } => Self::of(source),
            CommandError::Unreachable { .. } => Self::Unreachable,
            CommandError::ResponseTimeout { .. } | CommandError::ConnectionLost { .. } => Self::Unconfirmed,
            CommandError::ErrorResponse(body) => match body.error {
                ErrorKind::NotFound | ErrorKind::UnknownRoute => Self::NotFound,
                ErrorKind::BadRequest
                | ErrorKind::Unauthorized
                | ErrorKind::Refused
                | ErrorKind::Forbidden
                | ErrorKind::TooLarge
                | ErrorKind::Unavailable => Self::Refused,
                ErrorKind::TimedOut | ErrorKind::SlowBody => Self::Unconfirmed,
                ErrorKind::MethodNotAllowed | ErrorKind::Unknown => Self::Failure,
            },
            // A reader that has closed the pipe needs no more output.
            CommandError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Self::Ok,
            CommandError::Local(_)
            | CommandError::UnexpectedResponse { .. }
            | CommandError::Output(_)
            | CommandError::Setup(_) => Self::Failure,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        // Each discriminant is the code and fits a byte.
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::*;

    #[test]
    fn the_table_lists_every_code_in_order() {
        let all = [Ok, Failure, Usage, Unreachable, NotFound, Refused, Unconfirmed, GaveUp, Config, Killed];
        let lines = super::ExitCode::TABLE.lines().skip(1);
        let listed: Vec<u8> =
            lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(listed, all.map(|code| code as u8));
    }
}
