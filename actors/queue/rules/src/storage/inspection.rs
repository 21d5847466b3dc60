//! Answers to questions of operators.

use std::collections::HashSet;

use orchestrator_text::TIME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Limit, Pattern, RunId, RunState};
use crate::unserved::Unserved;

/// Maximum size of the texts in an answer, in bytes. Rows beyond it are left out.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Maximum number of rows that list a path in an answer.
pub const LISTED_MAX: usize = 100;
/// Maximum length of a payload in an answer, in characters.
pub const PAYLOAD_CHARS_MAX: usize = 500;
/// Largest exact place of a job in the order of hand-outs.
pub const POSITION_MAX: u64 = 10_000;
/// Fewest failed jobs that a store keeps.
pub const FAILURES_KEPT: i64 = 10_000;

/// A run with the number of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCount {
    /// The run.
    #[serde(flatten)]
    pub state: RunState,
    /// Number of its rows.
    pub rows: u64,
    /// Number of its jobs that wait, including those whose attribute path is held.
    #[serde(default)]
    pub waiting: u64,
    /// True while the run is being deleted.
    pub deleted: bool,
}

/// A job that is handed out next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peeked {
    /// The attribute path.
    pub attr_path: String,
    /// Payload of the job, up to 500 characters.
    pub payload: String,
    /// Run that the job comes from.
    #[serde(flatten)]
    pub run: RunId,
    /// Time of the path's last hand-out, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub last_started: Option<i64>,
}

/// Jobs that are handed out next, up to a number and [`ANSWER_BYTES_MAX`].
#[derive(Debug)]
pub struct NextJobs {
    /// In the order of hand-outs.
    pub jobs: Vec<Peeked>,
    paths: HashSet<String>,
    bytes: usize,
    limit: usize,
}

impl NextJobs {
    /// At most `limit` jobs.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { jobs: Vec::new(), paths: HashSet::new(), bytes: 0, limit }
    }

    /// Returns true if no further job is read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.jobs.len() == self.limit || self.bytes > ANSWER_BYTES_MAX
    }

    /// Returns true if a job of the path is among them: it holds the others.
    #[must_use]
    pub fn holds(&self, attr_path: &str) -> bool {
        self.paths.contains(attr_path)
    }

    /// Adds a job, unless it is too large.
    pub fn push(&mut self, job: Peeked) {
        self.bytes += job.attr_path.len() + job.payload.len() + job.run.fetcher.len();
        if self.bytes <= ANSWER_BYTES_MAX {
            self.paths.insert(job.attr_path.clone());
            self.jobs.push(job);
        }
    }
}

/// Jobs that wait for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// No job waits: all are handed out.
    Nothing,
    /// A job can be handed out.
    Ready,
    /// A job can be handed out, and nobody works.
    Unserved(Unserved),
    /// Every waiting job is held, because its attribute path is in flight.
    Held(HeldJobs),
    /// Every waiting job whose attribute path is free has a limit that is reached.
    Limited {
        /// Attribute path of the first of them.
        attr_path: String,
        /// Its limit.
        limit: Limit,
    },
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
    /// Number of jobs; [`Self::COUNTED_MAX`] stands for at least as many.
    pub jobs: u64,
}

impl HeldJobs {
    /// Maximum number of jobs that are counted.
    pub const COUNTED_MAX: u64 = 1_000;
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

/// A hand-out of a job with its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The attribute path.
    pub attr_path: String,
    /// Time of the hand-out, in unix seconds.
    pub started: i64,
    /// Time of the DONE or of the end of its hold by an operator, in unix seconds; None if neither
    /// came.
    pub finished: Option<i64>,
    /// Exit code that the worker reported.
    pub exit_code: Option<i64>,
    /// Fetcher of the job; None if another program handed it out, or if the attempt is not kept any more.
    pub fetcher: Option<String>,
    /// Name of the worker's connection; None as for the fetcher.
    pub connection: Option<String>,
    /// Instance that has the job in flight, if several share the queue.
    pub instance: Option<String>,
}

/// A move of a fetcher between instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Adopted {
    /// The fetcher.
    pub fetcher: String,
    /// Instance that had it; None if its last run was gone.
    pub from: Option<String>,
    /// Instance that has it now.
    pub to: String,
}

/// An instance of a queue that several share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceRow {
    /// Its name.
    pub instance: String,
    /// True while its process has a lease.
    pub live: bool,
    /// Last end of its lease, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub lease_until: i64,
    /// Host of its process.
    pub host: String,
    /// Path of its worker socket.
    pub socket: String,
    /// Number of fetchers whose files it has.
    pub fetchers: u64,
    /// Number of jobs that its workers have, whose holds are not over.
    pub in_flight: u64,
}

/// Selection of failed attempts: exit codes other than 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedAttempts {
    /// Only this exit code.
    pub exit_code: Option<i64>,
    /// Only attempts handed out at this time or later, in unix seconds.
    pub since: Option<i64>,
    /// Only these attribute paths.
    pub pattern: Option<Pattern>,
    /// Maximum number.
    pub limit: usize,
}

/// A job that a worker reported with an exit code other than 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedJob {
    /// Number, which grows with each failed job.
    pub number: i64,
    /// The attribute path.
    pub attr_path: String,
    /// Exit code that the worker reported.
    pub exit_code: i64,
    /// Time of the hand-out, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub started: i64,
    /// Time of the DONE, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub finished: i64,
    /// Fetcher of the job; None as for an [`Attempt`].
    pub fetcher: Option<String>,
}

/// A ready group, which waits for its hand-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGroup {
    /// Run of the group's row.
    pub run: RunId,
    /// Payload of the job, up to 500 characters.
    pub payload: String,
    /// Place in the order of hand-outs, from 1; a number above [`POSITION_MAX`] stands for any such place.
    /// None while the attribute path is held or limited.
    pub position: Option<u64>,
    /// The group's limit, if as many jobs are in flight as it allows.
    pub full: Option<Limit>,
}

/// A row of a fetcher file in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedRow {
    /// Run that lists it.
    #[serde(flatten)]
    pub run: RunId,
    /// Time at which the run was added, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub added: Option<i64>,
    /// True if a hand-out has used the row.
    pub handed_out: bool,
}

/// State of an attribute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttrReport {
    /// The rows that list it, newest runs first.
    pub listed: Vec<ListedRow>,
    /// Its ready groups, in order of their fetchers.
    pub waiting: Vec<WaitingGroup>,
    /// The job in flight, however long ago it was handed out.
    pub in_flight: Option<Attempt>,
    /// Length of a hold, in seconds.
    pub hold_secs: i64,
    /// Its attempts, newest first.
    pub attempts: Vec<Attempt>,
}

/// A group of the queue that was not tried for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StaleGroup {
    /// The attribute path.
    pub attr_path: String,
    /// Time of the path's last hand-out, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub last_started: Option<i64>,
    /// Run that lists it.
    #[serde(flatten)]
    pub run: RunId,
    /// Time at which the run was added, in unix seconds.
    #[schemars(extend("format" = TIME))]
    pub listed: Option<i64>,
}

/// Totals for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Ready groups, including those that wait for the end of a hold.
    pub waiting: u64,
    /// Attribute paths handed out and not reported done, however long ago.
    pub in_flight: u64,
    /// Time at which the first run with a ready group was added, in unix seconds.
    pub oldest_waiting: Option<i64>,
    /// Time of the last DONE, in unix seconds.
    pub last_done: Option<i64>,
    /// Ends of the last 24 hours.
    pub ends: Ends,
    /// Time until no job waits at the rate of the last hour, in seconds; None if fewer than 10 jobs ended in
    /// it.
    pub time_to_empty: Option<u64>,
}

/// Jobs that workers reported done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ends {
    /// Number with exit code 0.
    pub done: u64,
    /// Number with another exit code.
    pub failed: u64,
    /// Time from which all attempts are known, in unix seconds.
    pub since: i64,
}

/// Fewest ended jobs from which a rate is computed.
const ENDED_MIN: u64 = 10;

/// Seconds until `waiting` jobs are handed out, if `ended` jobs end every `secs` seconds; None if too few
/// ended.
pub fn time_to_empty(waiting: u64, ended: u64, secs: u64) -> Option<u64> {
    (ended >= ENDED_MIN).then(|| waiting.saturating_mul(secs.max(1)).div_ceil(ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_ten_ended_jobs() {
        assert_eq!(time_to_empty(100, 9, 3_600), None);
        assert_eq!(time_to_empty(100, 10, 3_600), Some(36_000));
        assert_eq!(time_to_empty(1, 10, 0), Some(1), "at least a second");
        assert_eq!(time_to_empty(0, 10, 3_600), Some(0));
        assert_eq!(time_to_empty(u64::MAX, 10, 3_600), Some(u64::MAX / 10 + 1));
    }
}
