//! Interface to what processes claimed rows.

use serde_json::{Map, Value};

/// A row of the catalog.
pub type Row = Map<String, Value>;

/// A claimed row to be processed.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Name of the rule that claimed the row.
    pub rule: String,
    /// Row as it was before the claim.
    pub row: Row,
    /// Token of the claim, if the table has a column for it.
    pub token: Option<String>,
    /// Number of this attempt, from 1, if the table has a column for it.
    pub attempt: Option<u32>,
}

/// Result of a handler.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Success; the fields are the values of `$result.FIELD`.
    Done(Row),
    /// Failed attempt; the text is the value of `$error`.
    Failed(String),
    /// The row could not be processed now; not counted as an attempt.
    Later(String),
    /// Permanent failure: no further attempt.
    Dead(String),
}

/// Processor of claimed rows.
pub(crate) trait Handler {
    /// Processes one row. Dropping the future ends the work, including processes that it started.
    fn handle(&self, task: Task) -> impl Future<Output = Outcome>;
}
