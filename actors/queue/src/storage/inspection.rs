//! Answers to operators' questions about the queue.

use super::{RunId, RunState};

/// A run and the rows of its file that are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCount {
    /// The run.
    pub state: RunState,
    /// Whether it is being deleted.
    pub deleted: bool,
    /// Its rows.
    pub rows: u64,
}

/// One of the next jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The attribute path.
    pub attr_path: String,
    /// What a worker would get with it.
    pub payload: String,
    /// Where it comes from.
    pub run: RunId,
    /// When a job of that path was last started, in unix seconds.
    pub last_started: Option<i64>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rows of fetcher files.
    pub rows: u64,
    /// Groups that can be handed out, now or when their hold ends.
    pub ready: u64,
    /// Those of them whose attribute path is in flight.
    pub held: u64,
    /// Attribute paths ever handed out.
    pub logged: u64,
    /// Attribute paths handed out and not reported done, however long ago.
    pub in_flight: u64,
}
