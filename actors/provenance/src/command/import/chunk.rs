//! Chunk of an import: rows that are sent together, and repeated after transient errors.

use std::time::{Duration, Instant};

use orchestrator_edge::{Retries, RetryPolicy};
use orchestrator_subsystem::{CommandError, wire::ErrorKind};
use serde_json::Value;

use crate::{
    command::{CONSOLE, backend::Backend},
    verbs::{Add, Added},
};

/// Rows with their line numbers.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) rows: Vec<Value>,
    pub(super) lines: Vec<u64>,
}

impl Chunk {
    /// Sends the chunk until it is confirmed or the time-out ends; storing it twice changes
    /// nothing. An unreachable instance is retried only if it is `known`, that is, was reached
    /// before.
    pub(super) async fn send_until_confirmed(
        &self,
        backend: &Backend<'_>,
        file: &str,
        batch: Option<u32>,
        mut known: bool,
    ) -> Result<Added, CommandError> {
        let add = Add { rows: self.rows.clone(), batch };
        let (started, retries) = (Instant::now(), Retries::new(RetryPolicy::REMOTE, Duration::MAX));
        let wait = backend.timeout().map(|timeout| timeout.of(self.rows.len()));
        loop {
            let error = match backend.ask(CONSOLE, &add).await.and_then(parse_answer) {
                Ok(added) => return Ok(added),
                Err(error) => error,
            };
            let left = wait.map(|wait| wait.saturating_sub(started.elapsed()));
            let again = backend.may_retry() && is_transient(&error, &mut known);
            match left.filter(|left| again && !left.is_zero()) {
                Some(left) => tokio::time::sleep(retries.failed().min(left)).await,
                None => {
                    let waited = left.filter(Duration::is_zero).map(|_| started.elapsed());
                    return Err(self.unconfirmed(file, waited, error));
                }
            }
        }
    }

    fn unconfirmed(&self, file: &str, waited: Option<Duration>, error: CommandError) -> CommandError {
        let line = |line: Option<&u64>| line.copied().unwrap_or_default();
        let after = waited.map(|waited| format!(" after {:.1} s", waited.as_secs_f64())).unwrap_or_default();
        // Standard input cannot be resumed.
        let on = if file == "-" { "" } else { ": continue with --resume" };
        let (first, last) = (line(self.lines.first()), line(self.lines.last()));
        let text = format!(
            "lines {first} to {last} of {file} are not confirmed{after}: {error}; all lines before are settled{on}"
        );
        CommandError::Incomplete { text, timed_out: waited.is_some(), source: Box::new(error) }
    }
}

fn parse_answer(answer: Value) -> Result<Added, CommandError> {
    serde_json::from_value(answer)
        .map_err(|error| CommandError::Local(format!("cannot read the answer to `add`: {error}")))
}

/// Returns true for an error that may be transient. Sets `known` for all but an unreachable instance: a connection that
/// was lost reached it.
fn is_transient(error: &CommandError, known: &mut bool) -> bool {
    *known |= !matches!(error, CommandError::Unreachable { .. });
    match error {
        // Rows that are added again change nothing.
        CommandError::ResponseTimeout { .. } | CommandError::ConnectionLost { .. } => true,
        CommandError::Unreachable { .. } => *known,
        CommandError::ErrorResponse(body) => {
            matches!(body.error, ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Unavailable)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_was_reached_is_waited_for() {
        let (target, reason) = ("x".to_owned(), "refused".to_owned());
        let unreachable = CommandError::Unreachable { target: target.clone(), reason: reason.clone() };
        let mut known = false;
        assert!(!is_transient(&unreachable, &mut known));
        assert!(is_transient(&CommandError::ConnectionLost { target, reason }, &mut known));
        assert!(is_transient(&unreachable, &mut known));
    }
}
