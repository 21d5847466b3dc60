//! Measurements of a cell and their limits.

use std::{fmt, time::Duration};

use crate::cell::HEALED_MAX;

/// Limit of the time until the link to a frozen peer is unanswered.
pub(crate) const UNANSWERED_MAX: Duration = Duration::from_secs(6);

/// Accepted growth of the RSS beyond the edge's budget, bytes.
const RSS_SLACK: u64 = 64 << 20;
/// Maximum number of log lines in any 10 s.
const LINES_MAX: u64 = 200;
/// Limit of the median latency of `GET /v1/tree`, or [`TREE_FACTOR`] times that of the reference instance.
///
/// Single latencies would measure the scheduler, because cells share the processors.
const TREE_MAX: Duration = Duration::from_millis(50);
/// See [`TREE_MAX`].
const TREE_FACTOR: u32 = 3;

/// Measurements of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Hostile connections.
    pub(crate) connections: u64,
    /// Growth of the peak RSS and the documented budget, bytes.
    pub(crate) grown: u64,
    pub(crate) budget: u64,
    /// Largest number of log lines in 10 s.
    pub(crate) lines: u64,
    /// Median latency of the tree during the attack, and failed requests.
    pub(crate) tree: Duration,
    pub(crate) no_tree: usize,
    /// Smallest number of worker round trips in a part.
    pub(crate) jobs: u64,
    pub(crate) worker_lost: Option<String>,
    pub(crate) healed: Option<Duration>,
    /// Time until all links to a frozen peer were unanswered, on a machine of usual speed. None if that did
    /// not happen.
    pub(crate) unanswered: Option<Duration>,
    /// Median latency of the tree of the reference instance.
    pub(crate) usual_tree: Duration,
    /// Slowness of the machine after the attack, by which the recovery limit is multiplied.
    pub(crate) slowness: f64,
    /// Log line that is too long or has control characters.
    pub(crate) unprintable: Option<String>,
    /// Children that panicked, with the reasons.
    pub(crate) crashed: Vec<String>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections,
            grown,
            budget,
            lines,
            tree,
            no_tree,
            jobs,
            healed,
            unanswered,
            usual_tree,
            slowness,
            ..
        } = self;
        write!(
            f,
            "{connections} connections; RSS +{} of {} MiB; {lines} lines; tree {tree:.1?} ({usual_tree:.1?} elsewhere), {no_tree} missing; {jobs} jobs in the \
             worst second; unanswered after {unanswered:.2?}; works again after {healed:.2?}; on a machine {slowness:.1} times slower",
            grown >> 20,
            (budget + RSS_SLACK) >> 20,
        )
    }
}

/// Violated limits.
#[derive(Debug)]
pub(crate) struct Violation {
    /// All of them, with the measurements.
    pub(crate) text: String,
    /// Only limits of durations, which the load of the machine may exceed, too.
    pub(crate) is_late: bool,
}

impl Violation {
    /// One that does not depend on the load of the machine.
    pub(crate) fn lasting(text: String) -> Self {
        Self { text, is_late: false }
    }
}

pub(crate) fn check_limits(measured: &Measured) -> Result<(), Violation> {
    let (mut broken, mut late) = (Vec::new(), Vec::new());
    let mut promise = |kept: bool, text: &str| {
        if !kept {
            broken.push(text.to_owned());
        }
    };
    promise(measured.connections > 0, "no connection was attacked");
    promise(measured.grown <= measured.budget + RSS_SLACK, "the RSS exceeds its budget");
    promise(measured.lines <= LINES_MAX, "the log has more than 200 lines in 10 s");
    promise(measured.unprintable.is_none(), "a log line is too long or has control characters");
    promise(measured.no_tree == 0, "a tree request failed");
    promise(measured.worker_lost.is_none(), "the monitored worker lost its connection");
    promise(measured.jobs > 0, "the monitored worker made no progress in a second of the attack");
    promise(measured.healed.is_some(), "the edge did not recover");
    promise(measured.unanswered.is_some(), "a link to the frozen peer was not unanswered");
    promise(measured.crashed.is_empty(), &format!("children crashed: {:?}", measured.crashed));
    let mut in_time = |kept: bool, text: &str| {
        if !kept {
            late.push(text.to_owned());
        }
    };
    in_time(
        measured.tree <= TREE_MAX.max(measured.usual_tree * TREE_FACTOR),
        "the tree takes more than 50 ms",
    );
    let healed_max = HEALED_MAX.mul_f64(measured.slowness);
    in_time(measured.healed.is_none_or(|after| after <= healed_max), "the edge did not recover in time");
    let is_shown = measured.unanswered.is_none_or(|after| after <= UNANSWERED_MAX);
    in_time(is_shown, "a link to the frozen peer was not unanswered in time");
    let is_late = broken.is_empty();
    broken.append(&mut late);
    if broken.is_empty() { Ok(()) } else { Err(Violation { text: broken.join("; "), is_late }) }
}
