//! A piece of an import: rows that are sent together, and sent again while that may help.

use std::time::{Duration, Instant};

use orchestrator_subsystem::{CommandError, wire::ErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::storage::Storage;

/// Pauses before a piece is sent again: the first, and the longest.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Rows, and the line that each comes from.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) rows: Vec<Value>,
    pub(super) lines: Vec<u64>,
}

/// What the console says of it.
#[derive(Debug, Deserialize)]
pub(super) struct Added {
    pub(super) stored: u64,
    /// Rows that cannot be read or stored.
    pub(super) bad: Vec<Bad>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Bad {
    /// Its position in the piece; instances that are older than this do not always know it.
    pub(super) index: Option<usize>,
    pub(super) reason: String,
}

impl Piece {
    /// Has it stored: again and again, as long as it may take, since storing it twice changes nothing. An instance that was
    /// never reached is not waited for; it is `known` once it has answered.
    pub(super) async fn confirm(
        &self,
        storage: &Storage<'_>,
        file: &str,
        batch: Option<u32>,
        known: bool,
    ) -> Result<Added, CommandError> {
        let mut args = json!({ "rows": self.rows });
        if let Some(batch) = batch {
            args["batch"] = batch.into();
        }
        let (begun, [mut pause, longest]) = (Instant::now(), AGAIN);
        let wait = storage.waits().map(|waits| waits.of(self.rows.len()));
        loop {
            let error = match storage.ask("add", &args).await.and_then(understood) {
                Ok(added) => return Ok(added),
                Err(error) => error,
            };
            let left = wait.map(|wait| wait.saturating_sub(begun.elapsed()));
            let again = storage.is_hasty() && may_pass(&error, known);
            match left.filter(|left| again && !left.is_zero()) {
                Some(left) => tokio::time::sleep(pause.min(left)).await,
                None => {
                    let waited = left.filter(Duration::is_zero).map(|_| begun.elapsed());
                    return Err(self.unconfirmed(file, waited, error));
                }
            }
            pause = (pause * 2).min(longest);
        }
    }

    fn unconfirmed(&self, file: &str, waited: Option<Duration>, error: CommandError) -> CommandError {
        let line = |line: Option<&u64>| line.copied().unwrap_or_default();
        let after = waited.map(|waited| format!(" after {:.1} s", waited.as_secs_f64())).unwrap_or_default();
        // Standard input cannot be resumed.
        let on = if file == "-" { "" } else { ": --resume goes on from there" };
        let (first, last) = (line(self.lines.first()), line(self.lines.last()));
        let text = format!(
            "lines {first} to {last} of {file} are not confirmed{after}: {error}; what comes before is done with{on}"
        );
        CommandError::Incomplete { text, timed_out: waited.is_some(), source: Box::new(error) }
    }
}

fn understood(answer: Value) -> Result<Added, CommandError> {
    serde_json::from_value(answer)
        .map_err(|error| CommandError::Local(format!("the answer to `add` makes no sense: {error}")))
}

/// Is it trouble that may pass?
fn may_pass(error: &CommandError, known: bool) -> bool {
    match error {
        CommandError::Slow { .. } => true,
        CommandError::Unreachable { .. } => known,
        CommandError::Answered(body) => {
            matches!(body.error, ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Unavailable)
        }
        _ => false,
    }
}
