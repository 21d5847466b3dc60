//! What is done with a claimed row: a trait, and how it can end.

use serde_json::{Map, Value};

/// A row of the catalog.
pub type Row = Map<String, Value>;

/// A claimed row, to be worked on.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The rule that claimed it.
    pub rule: String,
    /// The row, as it was before the claim.
    pub row: Row,
    /// The claim's token, if the table has a column for it.
    pub token: Option<String>,
    /// Which attempt this is, from 1, if the table has a column for it.
    pub attempt: Option<u32>,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Done; the fields are what `$result.FIELD` stands for.
    Done(Row),
    /// Failed: it counts as an attempt. The text is what `$error` stands for.
    Failed(String),
    /// Could not be tried now: it does not count as an attempt.
    Later(String),
    /// It will never succeed: no further attempt.
    Dead(String),
}

/// Who works on rows.
pub trait Handler {
    /// Works on one. Dropping the future ends the work, whatever processes it began included.
    fn handle(&self, task: Task) -> impl Future<Output = Verdict>;
}
