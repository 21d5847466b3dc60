//! Answers of the console.

use orchestrator_queue_rules::storage::{Attempt, AttrReport, ListedRow, RunCount, WaitingGroup};
use orchestrator_text::{NUMBER_OR_TIME, TIME};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run in the answer to [`Ls`](super::Ls).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunRow {
    #[serde(flatten)]
    pub(crate) run: RunCount,
    /// Name of the file and the reason, if its link is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// Totals of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Totals {
    /// Ready groups whose attribute path is in flight.
    pub(crate) held: u64,
    /// Attribute paths handed out and not reported done, however long ago.
    pub(crate) in_flight: u64,
    /// Attribute paths ever handed out.
    pub(crate) logged: u64,
    /// True while an operator pauses hand-outs.
    pub(crate) paused: bool,
    /// Ready groups, including those that wait for the end of a hold.
    pub(crate) ready: u64,
    /// Rows of fetcher files.
    pub(crate) rows: u64,
}

/// State of an attribute path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PathReport {
    pub(crate) attr_path: String,
    /// Up to 100 rows that list it, newest runs first.
    #[serde(default)]
    pub(crate) listed: Vec<ListedRow>,
    /// Its ready groups, in order of their fetchers.
    pub(crate) waiting: Vec<WaitingRow>,
    pub(crate) in_flight: Option<InFlightJob>,
    /// Newest first.
    pub(crate) attempts: Vec<AttemptRow>,
}

impl PathReport {
    /// Returns true if the queue knows nothing of the path.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.in_flight.is_none() && self.attempts.is_empty()
    }

    pub(crate) fn new(attr_path: String, found: AttrReport) -> Self {
        let until = |job: &Attempt| job.started.saturating_add(found.hold_secs);
        let held_until = found.in_flight.as_ref().map(until);
        let waiting = |WaitingGroup { run, payload, position, full }| WaitingRow {
            fetcher: run.fetcher,
            run_started: run.started,
            payload,
            position,
            // A path whose hold is over has a position although it is in flight.
            held_until: held_until.filter(|_| position.is_none()),
            limited: full.is_some(),
        };
        let in_flight = |job: Attempt| InFlightJob {
            started: job.started,
            held_until: until(&job),
            fetcher: job.fetcher,
            connection: job.connection,
            instance: job.instance,
        };
        Self {
            attr_path,
            listed: found.listed,
            waiting: found.waiting.into_iter().map(waiting).collect(),
            in_flight: found.in_flight.map(in_flight),
            attempts: found.attempts.into_iter().map(AttemptRow::from).collect(),
        }
    }
}

/// A ready group of an attribute path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WaitingRow {
    pub(crate) fetcher: String,
    #[schemars(extend("format" = NUMBER_OR_TIME))]
    pub(crate) run_started: i64,
    /// Up to 500 characters.
    pub(crate) payload: String,
    /// Place in the order of hand-outs, from 1; 10001 stands for any later one. Null while the path is held
    /// or limited.
    pub(crate) position: Option<u64>,
    /// Last second of the hold.
    #[schemars(extend("format" = TIME))]
    pub(crate) held_until: Option<i64>,
    /// True if as many jobs are in flight as the group's limit allows.
    pub(crate) limited: bool,
}

/// The job of an attribute path that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct InFlightJob {
    #[schemars(extend("format" = TIME))]
    pub(crate) started: i64,
    /// Last second of the hold.
    #[schemars(extend("format" = TIME))]
    pub(crate) held_until: i64,
    /// Null if another program handed it out.
    pub(crate) fetcher: Option<String>,
    pub(crate) connection: Option<String>,
    /// Instance of the worker, if several share the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<String>,
}

/// A hand-out of a job with its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AttemptRow {
    /// Not in the text about one path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attr_path: Option<String>,
    pub(crate) exit_code: Option<i64>,
    #[schemars(extend("format" = TIME))]
    pub(crate) started: i64,
    /// Duration, if the job has ended.
    pub(crate) seconds: Option<i64>,
    /// Null if another program handed it out, or if the attempt is not kept any more.
    pub(crate) fetcher: Option<String>,
    pub(crate) connection: Option<String>,
    /// Time of the DONE or of the end of its hold by an operator.
    #[schemars(extend("format" = TIME))]
    pub(crate) finished: Option<i64>,
}

impl From<Attempt> for AttemptRow {
    fn from(attempt: Attempt) -> Self {
        let Attempt { attr_path, started, finished, exit_code, fetcher, connection, instance: _ } = attempt;
        let seconds = finished.map(|finished| finished.saturating_sub(started));
        Self { attr_path: Some(attr_path), exit_code, started, seconds, fetcher, connection, finished }
    }
}

/// A job in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RunningRow {
    pub(crate) attr_path: String,
    #[schemars(extend("format" = TIME))]
    pub(crate) started: i64,
    /// Time since the hand-out.
    pub(crate) seconds: i64,
    pub(crate) fetcher: Option<String>,
    pub(crate) connection: Option<String>,
    /// Instance of the worker, if several share the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<String>,
}

impl RunningRow {
    /// `now` is in unix seconds.
    pub(crate) fn new(job: Attempt, now: i64) -> Self {
        let Attempt { attr_path, started, fetcher, connection, instance, .. } = job;
        Self { attr_path, started, seconds: now.saturating_sub(started), fetcher, connection, instance }
    }
}

/// Answer to [`Bump`](super::Bump).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BumpAnswer {
    pub(crate) bumped: bool,
}

/// Answer to [`Requeue`](super::Requeue).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RequeueAnswer {
    /// Number of rows that are available again.
    pub(crate) requeued: u64,
    /// True if a worker had the job.
    #[serde(default)]
    pub(crate) was_in_flight: bool,
}

/// Answer to [`BumpAll`](super::BumpAll).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BumpedAll {
    /// Attribute paths that are next, in order.
    pub(crate) bumped: Vec<String>,
    /// True if as many paths are bumped as possible, so that others of the pattern may be left.
    pub(crate) full: bool,
}

/// Answer to [`RequeueAll`](super::RequeueAll).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RequeuedAll {
    /// Number of jobs that are available again.
    pub(crate) requeued: u64,
    /// False if more jobs are requeued after this answer.
    pub(crate) finished: bool,
}

/// Answer to [`Pause`](super::Pause) and [`Resume`](super::Resume).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Paused {
    /// True while no job is handed out.
    pub(crate) paused: bool,
    /// Time at which the pause ends by itself, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
}
