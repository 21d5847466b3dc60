//! Answers to questions of operators.

use super::{RunId, RunState};

/// A run with the number of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCount {
    /// The run.
    pub state: RunState,
    /// True while the run is being deleted.
    pub deleted: bool,
    /// Number of its rows.
    pub rows: u64,
}

/// A job that is handed out next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The attribute path.
    pub attr_path: String,
    /// Payload of the job.
    pub payload: String,
    /// Run that the job comes from.
    pub run: RunId,
    /// Time of the path's last hand-out, in unix seconds.
    pub last_started: Option<i64>,
}

/// Jobs that wait for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// No job waits: all are handed out.
    Nothing,
    /// A job can be handed out.
    Ready,
    /// Every waiting job is held, because its attribute path is in flight.
    Held(HeldJobs),
}

/// Jobs that wait for the end of a hold. Times are in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldJobs {
    /// Attribute path whose hold ends first.
    pub attr_path: String,
    /// Time of its last hand-out.
    pub started: String,
    /// End of its hold.
    pub until: String,
    /// Number of jobs, counted up to a thousand.
    pub jobs: u64,
}

/// Totals of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rows of fetcher files.
    pub rows: u64,
    /// Ready groups, including those that wait for the end of a hold.
    pub ready: u64,
    /// Ready groups whose attribute path is in flight.
    pub held: u64,
    /// Attribute paths ever handed out.
    pub logged: u64,
    /// Attribute paths handed out and not reported done, however long ago.
    pub in_flight: u64,
}
