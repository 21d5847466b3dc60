//! Interface to what processes claimed rows.

use orchestrator_catalog_rules::rows::Row;
use orchestrator_supervise::StopToken;

/// A claimed row to be processed.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Name of the rule that claimed the row.
    pub rule: String,
    /// Row as it was before the claim.
    pub row: Row,
    /// Token of the claim, if the table has a column for it.
    pub token: Option<String>,
    /// Token of the claim before, whose lease ended without an outcome.
    pub former_token: Option<String>,
    /// Number of this attempt, from 1, if the table has a column for it.
    pub attempt: Option<u32>,
}

/// Result of a handler.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Success; the fields are the values of `$result.FIELD`.
    Done(Row),
    /// Failed attempt.
    Failed(Failure),
    /// The row could not be processed now; not counted as an attempt.
    Later(String),
    /// Permanent failure: no further attempt.
    Dead(Failure),
    /// At a stop: somebody else continues the work. The row keeps its claim until its lease ends; whoever
    /// claims it then gets the outcome.
    Continues,
}

/// Failed attempt to process a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Value of `$error`.
    pub error: String,
    /// Values of `$result.FIELD`, if the handler has any.
    pub result: Row,
}

impl Outcome {
    /// Failed attempt with this error and no result.
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::Failed(Failure { error: error.into(), result: Row::new() })
    }

    /// Permanent failure with this error and no result.
    pub(crate) fn dead(error: impl Into<String>) -> Self {
        Self::Dead(Failure { error: error.into(), result: Row::new() })
    }
}

/// Processor of claimed rows.
pub(crate) trait Handler {
    /// Processes one row. Dropping the future ends the work, including processes that it started.
    fn handle(&self, task: Task) -> impl Future<Output = Outcome>;

    /// As [`Handler::handle`], but does not wait for others once `stop` is cancelled.
    fn handle_until(&self, task: Task, _stop: &StopToken) -> impl Future<Output = Outcome> {
        self.handle(task)
    }
}
