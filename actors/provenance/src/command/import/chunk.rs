//! Chunk of an import: rows that are sent together, and repeated after transient errors.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use orchestrator_edge::{Retries, RetryPolicy};
use orchestrator_subsystem::{
    CommandError,
    wire::{ErrorBody, ErrorKind},
};
use orchestrator_text::sanitize;
use serde_json::Value;

use crate::{
    call::CallError,
    command::{CONSOLE, backend::Backend},
    verbs::{Add, Added, WaitAdded},
};

/// Time between two lines about a chunk that is not stored yet.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Rows with their line numbers.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) rows: Vec<Value>,
    pub(super) lines: Vec<u64>,
}

impl Chunk {
    /// Sends the chunk until it is confirmed or the time-out ends; storing it twice changes nothing. Without
    /// a time-out, it is waited for as long as the instance answers. With one, an unreachable instance is
    /// retried if it is `known`, that is, was reached before.
    pub(super) async fn send_until_confirmed(
        &self,
        backend: &Backend<'_>,
        file: &str,
        batch: Option<u32>,
        mut known: bool,
    ) -> Result<Added, CommandError> {
        // A client in this process waits by itself.
        let add = Add { rows: self.rows.clone(), batch, wait: backend.may_retry() };
        let (started, retries) = (Instant::now(), Retries::new(RetryPolicy::REMOTE, Duration::MAX));
        let wait = backend.timeout().map(|timeout| timeout.of(self.rows.len()));
        let mut told = None;
        loop {
            let error = match self.ask(backend, &add, (file, &mut told), (started, wait)).await {
                Ok(added) => return Ok(added),
                Err(error) => error,
            };
            let is_answer = |error: &CommandError| match error {
                CommandError::ErrorResponse(body) => {
                    matches!(body.error, ErrorKind::TimedOut | ErrorKind::Unavailable)
                }
                _ => false,
            };
            let left = match wait {
                Some(wait) => Some(wait.saturating_sub(started.elapsed())),
                None => is_answer(&error).then_some(Duration::MAX),
            };
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

    /// Sends the chunk, and waits for the instance to store it.
    async fn ask(
        &self,
        backend: &Backend<'_>,
        add: &Add,
        (file, told): (&str, &mut Option<Instant>),
        (started, wait): (Instant, Option<Duration>),
    ) -> Result<Added, CommandError> {
        let mut added = parse_answer(backend.ask(CONSOLE, add).await?)?;
        while let Some(call) = added.pending {
            if wait.is_some_and(|wait| started.elapsed() >= wait) {
                let message = CallError::Unstored.to_string();
                return Err(CommandError::ErrorResponse(ErrorBody { error: ErrorKind::TimedOut, message }));
            }
            if told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
                *told = Some(Instant::now());
                let ((first, last), secs) = (self.span(), started.elapsed().as_secs());
                let file = sanitize(file);
                // Without standard error nobody is told.
                let _ = writeln!(
                    std::io::stderr(),
                    "{file}: lines {first} to {last} are not stored yet after {secs} s: waiting"
                );
            }
            added = match backend.ask(CONSOLE, &WaitAdded { call }).await {
                Ok(answer) => parse_answer(answer)?,
                // The client was restarted.
                Err(CommandError::ErrorResponse(body)) if body.error == ErrorKind::BadRequest => {
                    parse_answer(backend.ask(CONSOLE, add).await?)?
                }
                Err(error) => return Err(error),
            };
        }
        Ok(added)
    }

    /// Numbers of the first and the last line.
    fn span(&self) -> (u64, u64) {
        let line = |line: Option<&u64>| line.copied().unwrap_or_default();
        (line(self.lines.first()), line(self.lines.last()))
    }

    fn unconfirmed(&self, file: &str, waited: Option<Duration>, error: CommandError) -> CommandError {
        let after = waited.map(|waited| format!(" after {:.1} s", waited.as_secs_f64())).unwrap_or_default();
        // Standard input cannot be resumed.
        let on = if file == "-" { "" } else { ": continue with --resume" };
        let (first, last) = self.span();
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

/// Sets `known` for all errors but that of an unreachable instance: a connection that was lost reached it.
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
