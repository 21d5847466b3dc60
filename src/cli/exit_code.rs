//! The exit codes of every command, in one table. RUNBOOK and `--help` show the same one.

use orchestrator_subsystem::{CommandError, wire::ErrorKind};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// Done.
    Ok = 0,
    /// Something that no other code says.
    Failure = 1,
    /// The command line was not understood; clap uses the same code.
    Usage = 2,
    /// The endpoint of the running instance was not reached.
    Unreachable = 3,
    /// There is no such child, console or verb.
    NotFound = 4,
    /// The running instance refused.
    Refused = 5,
    /// No answer, or no effect, in time.
    TimedOut = 6,
    /// The root supervisor gave up (EX_SOFTWARE).
    GaveUp = 70,
    /// The configuration, or what it names, keeps the program from starting (EX_CONFIG).
    Config = 78,
    /// A second signal ended it before it had drained.
    Killed = 137,
}

impl ExitCode {
    /// The table, for people.
    pub(crate) const TABLE: &str = "\
Exit codes:
  0    done
  1    failed in a way that no other code says
  2    the command line was not understood
  3    the running instance was not reached
  4    there is no such child, console or verb
  5    the running instance refused
  6    no answer, or no effect, in time
  70   the root supervisor gave up
  78   the configuration, or what it names, keeps the program from starting
  137  a second signal ended the program before it had drained";
}

impl ExitCode {
    /// Returns the code of a failed command.
    pub(crate) fn of(error: &CommandError) -> Self {
        match error {
            CommandError::Usage(_) => Self::Usage,
            CommandError::Config(_) => Self::Config,
            CommandError::Incomplete { timed_out: true, .. } => Self::TimedOut,
            CommandError::Incomplete { source, .. } => Self::of(source),
            CommandError::Unreachable { .. } => Self::Unreachable,
            CommandError::Slow { .. } => Self::TimedOut,
            CommandError::Answered(body) => match body.error {
                ErrorKind::NotFound | ErrorKind::UnknownRoute => Self::NotFound,
                ErrorKind::BadRequest
                | ErrorKind::Unauthorized
                | ErrorKind::Refused
                | ErrorKind::Forbidden
                | ErrorKind::TooLarge
                | ErrorKind::Unavailable => Self::Refused,
                ErrorKind::TimedOut | ErrorKind::SlowBody => Self::TimedOut,
                ErrorKind::MethodNotAllowed | ErrorKind::Unknown => Self::Failure,
            },
            // A reader that went away has seen enough.
            CommandError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Self::Ok,
            CommandError::Local(_)
            | CommandError::Foreign { .. }
            | CommandError::Output(_)
            | CommandError::Setup(_) => Self::Failure,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        // The discriminants are the codes; all fit a byte.
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode::*;

    #[test]
    fn the_table_has_every_code_in_order() {
        let all = [Ok, Failure, Usage, Unreachable, NotFound, Refused, TimedOut, GaveUp, Config, Killed];
        let lines = super::ExitCode::TABLE.lines().skip(1);
        let listed: Vec<u8> =
            lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect();
        assert_eq!(listed, all.map(|code| code as u8));
    }
}
