//! A piece of an import: rows that are sent together, and sent again while that may help.

use std::time::{Duration, Instant};

use orchestrator_admin::wire::ErrorKind;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{client_error::ClientError, storage::Storage};

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
    ) -> Result<Added, ClientError> {
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

    fn unconfirmed(&self, file: &str, waited: Option<Duration>, error: ClientError) -> ClientError {
        let line = |line: Option<&u64>| line.copied().unwrap_or_default();
        ClientError::Unconfirmed {
            file: file.to_owned(),
            first: line(self.lines.first()),
            last: line(self.lines.last()),
            waited,
            error: Box::new(error),
        }
    }
}

fn understood(answer: Value) -> Result<Added, ClientError> {
    serde_json::from_value(answer)
        .map_err(|error| ClientError::Local(format!("the answer to `add` makes no sense: {error}")))
}

/// Is it trouble that may pass?
fn may_pass(error: &ClientError, known: bool) -> bool {
    match error {
        ClientError::Slow { .. } => true,
        ClientError::Unreachable { .. } => known,
        ClientError::Answered(body) => {
            matches!(body.error, ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Unavailable)
        }
        _ => false,
    }
}
