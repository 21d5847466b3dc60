//! What is measured in a cell, and the one assertion for all of them.

use std::{fmt, time::Duration};

use crate::cell::HEALED_MAX;

/// Growth of the RSS beyond the edge's documented budget that is still accepted, bytes.
const RSS_SLACK: u64 = 64 << 20;
/// Lines of log in any ten seconds.
const LINES_MAX: u64 = 200;
/// Time in which `GET /v1/tree` answers, or as long as [`TREE_FACTOR`] times what an instance that nobody attacks takes at the same time.
/// Medians are compared: single answers of a process that shares two cores with other cells measure the scheduler.
const TREE_MAX: Duration = Duration::from_millis(50);
/// See [`TREE_MAX`].
const TREE_FACTOR: u32 = 3;

/// What came of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Hostile connections.
    pub(crate) connections: u64,
    /// Growth of the RSS at its peak, bytes, and what is documented.
    pub(crate) grown: u64,
    pub(crate) budget: u64,
    /// Most lines of log in ten seconds.
    pub(crate) lines: u64,
    /// Median answer with the tree during the attack, and requests without one.
    pub(crate) tree: Duration,
    pub(crate) no_tree: usize,
    /// Round trips of the worker in the worst part.
    pub(crate) jobs: u64,
    pub(crate) worker_lost: Option<String>,
    pub(crate) healed: Option<Duration>,
    /// Median answer with the tree of the instance that nobody attacks.
    pub(crate) usual_tree: Duration,
    /// How much slower than usual the machine was after the attack, which the time until it works again is granted.
    pub(crate) slowness: f64,
    /// A line of the log that is too long, or has characters that a terminal acts on.
    pub(crate) unprintable: Option<String>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connections, grown, budget, lines, tree, no_tree, jobs, healed, usual_tree, slowness, ..
        } = self;
        write!(
            f,
            "{connections} connections; RSS +{} of {} MiB; {lines} lines; tree {tree:.1?} ({usual_tree:.1?} elsewhere), {no_tree} missing; {jobs} jobs in the \
             worst second; works again after {healed:.2?}; on a machine {slowness:.1} times slower",
            grown >> 20,
            (budget + RSS_SLACK) >> 20,
        )
    }
}

/// The one assertion.
pub(crate) fn judge(measured: &Measured) -> Result<(), String> {
    let mut broken = Vec::new();
    let mut promise = |kept: bool, text: &str| {
        if !kept {
            broken.push(text.to_owned());
        }
    };
    promise(measured.connections > 0, "nobody was attacked");
    promise(measured.grown <= measured.budget + RSS_SLACK, "the RSS is beyond its budget");
    promise(measured.lines <= LINES_MAX, "the log has more than 200 lines in 10 s");
    promise(measured.unprintable.is_none(), "the log has a line that is too long, or not to be shown");
    promise(
        measured.tree <= TREE_MAX.max(measured.usual_tree * TREE_FACTOR),
        "the tree takes more than 50 ms",
    );
    promise(measured.no_tree == 0, "the tree was not answered");
    promise(measured.worker_lost.is_none(), "the worker beside the attack was sent away");
    promise(measured.jobs > 0, "the other subsystem made no progress in a second of the attack");
    let in_time = |after: Duration| after <= HEALED_MAX.mul_f64(measured.slowness);
    promise(measured.healed.is_some_and(in_time), "the edge does not work again in time");
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
}
