//! Details of one child: the causes that hold it up, its newest crash, and its values over the last minutes.
//! No I/O.

use orchestrator_subsystem::wire::{Cause, Why};
use serde::Deserialize;

use crate::cli::top::crash::NewestCrash;

/// Requested metrics: messages waiting, messages handled, handling time.
pub(super) const METRICS: [&str; 3] = ["mailbox_depth", "mailbox_handled", "handling_p99_us"];
/// Period of the charts, milliseconds.
pub(super) const PERIOD_MS: u64 = 600_000;

/// Child whose details are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) path: String,
    /// True if the child has no mailbox of its own but children: their values are added up.
    pub(super) is_branch: bool,
    /// Start of the charts, milliseconds since 1970.
    pub(super) since_ms: u64,
    /// Time of the last exit in the branch, milliseconds since 1970. Without one, there is no crash report.
    pub(super) exit_ms: Option<u64>,
    /// The newest crash, if it is known for this exit.
    pub(super) known_crash: Option<NewestCrash>,
}

/// Response of `GET /v1/history`.
#[derive(Debug, Deserialize)]
pub(super) struct History {
    at_ms: Vec<u64>,
    series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
struct Series {
    metric: String,
    values: Vec<Option<i64>>,
}

/// Values of one metric at the times of the samples, oldest first. A sample without a value has none.
pub(super) type Values = Vec<Option<u64>>;

/// Details of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) path: String,
    pub(super) causes: Vec<Cause>,
    /// The newest crash of the child and its descendants; None before the first exit.
    pub(super) crash: Option<NewestCrash>,
    /// Messages waiting.
    pub(super) depth: Values,
    /// Messages handled per 1,000 seconds.
    pub(super) rate: Values,
    /// Handling time, 99th percentile in microseconds.
    pub(super) p99_us: Values,
}

impl Details {
    pub(super) fn new(path: String, why: Why, history: &History, crash: Option<NewestCrash>) -> Self {
        let handled = history.values(METRICS[1]);
        Self {
            path,
            causes: why.subsystems.into_iter().flat_map(|branch| branch.causes).collect(),
            crash,
            depth: history.values(METRICS[0]),
            rate: rates(&history.at_ms, &handled),
            p99_us: history.values(METRICS[2]),
        }
    }
}

impl History {
    fn values(&self, metric: &str) -> Values {
        let series = self.series.iter().find(|series| series.metric == metric);
        let value = |value: &Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        series.map_or_else(Vec::new, |series| series.values.iter().map(value).collect())
    }
}

/// Increase per 1,000 seconds up to each sample. The first sample has none.
fn rates(at_ms: &[u64], counts: &[Option<u64>]) -> Values {
    let samples: Vec<(u64, Option<u64>)> = at_ms.iter().copied().zip(counts.iter().copied()).collect();
    let rate = |pair: &[(u64, Option<u64>)]| {
        let [(from_ms, from), (to_ms, to)] = pair else { return None };
        // The counter of a new incarnation or process begins at zero.
        let increase = to.and_then(|to| Some(to.checked_sub((*from)?).unwrap_or(to)))?;
        Some(increase.saturating_mul(1_000_000) / to_ms.saturating_sub(*from_ms).max(1))
    };
    samples.windows(2).map(rate).collect()
}

/// Reduces values to at most `width`, each the largest of its part.
pub(super) fn resample(values: &[Option<u64>], width: usize) -> Values {
    if width == 0 {
        return Vec::new();
    }
    let part = values.len().div_ceil(width).max(1);
    values.chunks(part).map(|part| part.iter().flatten().max().copied()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_follow_from_counts_and_survive_a_restart() {
        let history = json!({
            "path": "o/a", "step_ms": 5000, "oldest_ms": 0, "at_ms": [0, 5_000, 10_000, 15_000],
            "series": [
                { "path": "o/a", "metric": "mailbox_depth", "values": [1, null, 3, 4] },
                { "path": "o/a", "metric": "mailbox_handled", "values": [0, 50, null, 20] },
            ],
        });
        let why = Why { at_ms: 0, subsystems: Vec::new() };
        let details = Details::new("o/a".to_owned(), why, &serde_json::from_value(history).unwrap(), None);
        assert_eq!(details.depth, [Some(1), None, Some(3), Some(4)]);
        assert_eq!(details.rate, [Some(10_000), None, None]);
        assert_eq!(details.p99_us, []);
        assert_eq!(
            rates(&[0, 1_000], &[Some(900), Some(7)]),
            [Some(7_000)],
            "a new process counts from zero"
        );
    }

    #[test]
    fn values_are_reduced_to_the_largest_of_each_part() {
        let values: Values = (0..10).map(Some).collect();
        assert_eq!(resample(&values, 5), [Some(1), Some(3), Some(5), Some(7), Some(9)]);
        assert_eq!(resample(&values, 100), values);
        assert_eq!(resample(&values, 0), []);
        assert_eq!(resample(&[None, None, Some(4)], 1), [Some(4)]);
    }
}
