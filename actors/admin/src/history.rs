//! The history of the tree: samples of the last hour, in limited memory. No I/O; the caller provides the
//! time.
//!
//! The history is a ring of samples. A sample has a number of 64 bits for each series, identified by a
//! child's path and a metric, at the index of the series. The index of a series that ended goes to a new one
//! once no sample has a value at it. 5,000 series of an hour take 30 MB: 720 samples of 40 kB, and the names.
//! At the limit the oldest samples are removed, so that more series reach back less than an hour. If the wall
//! clock jumps, the times of all samples are changed, so that their age stays right.

mod file;
mod past;
mod sample;

pub(crate) use file::{load, store};
pub(crate) use past::rewind;

use std::collections::{BTreeMap, HashSet, VecDeque};

use orchestrator_observe::TreeSnapshot;
use serde::{Deserialize, Serialize};

use crate::history::sample::Values;

/// Maximum memory of the history, in bytes.
pub(crate) const LIMIT_BYTES: usize = 32 * 1024 * 1024;
/// Time between two samples, in milliseconds.
pub(crate) const STEP_MS: u64 = 5_000;
/// Maximum age of a sample, in milliseconds.
pub(crate) const RETENTION_MS: u64 = 3_600_000;
/// Marker for a missing value: the series was not in the sample.
pub(crate) const ABSENT: i64 = i64::MIN;
/// Smallest jump of the clock that changes the times of samples, in milliseconds.
const JUMP_MS: i64 = 1_000;
/// Maximum number of series. Values of further series are dropped.
const SERIES_MAX: usize = 50_000;
/// Estimated memory of a series' entry in the table of names, without path and metric, in bytes.
const NAME_BYTES: usize = 96;

/// Values of one series, in the order of [`Columns::at_ms`]. A sample without a value has [`ABSENT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) path: String,
    pub(crate) metric: String,
    pub(crate) values: Vec<i64>,
}

/// Times of samples, and the values of selected series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) at_ms: Vec<u64>,
    pub(crate) series: Vec<Series>,
}

/// Size of the history, for `/v1/info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) bytes: usize,
    pub(crate) series: usize,
    pub(crate) dropped_values: u64,
    pub(crate) samples: usize,
    pub(crate) oldest_ms: Option<u64>,
}

/// Values of all series at one time.
#[derive(Debug, Serialize, Deserialize)]
struct Sample {
    at_ms: u64,
    /// Values by index. Series with a higher index have none.
    values: Box<[i64]>,
}

impl Sample {
    fn value(&self, index: usize) -> i64 {
        self.values.get(index).copied().unwrap_or(ABSENT)
    }

    /// Memory, with its entry in the ring, which is at least half full.
    fn bytes(&self) -> usize {
        2 * size_of::<Self>() + size_of_val(&*self.values)
    }
}

/// The recorded history.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct History {
    /// Limit of the memory, in bytes.
    #[serde(skip)]
    limit: usize,
    /// Samples in the order of their times.
    samples: VecDeque<Sample>,
    /// Index of each series, by path and metric.
    names: BTreeMap<String, BTreeMap<String, usize>>,
    /// Wall clock at the start of the process, according to the last sample, in milliseconds.
    #[serde(skip)]
    start_ms: Option<i64>,
    dropped_values: u64,
}

impl History {
    /// Creates an empty history with a limit in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    fn last_ms(&self) -> Option<u64> {
        self.samples.back().map(|sample| sample.at_ms)
    }

    /// The clock may have been set back.
    pub(crate) fn is_due(&self, at_ms: u64) -> bool {
        self.last_ms().is_none_or(|last| at_ms.abs_diff(last) + STEP_MS / 10 >= STEP_MS)
    }

    pub(crate) fn record(&mut self, snapshot: &TreeSnapshot) {
        self.follow_clock(snapshot);
        let at_ms = self.last_ms().map_or(0, |last| last + 1).max(snapshot.captured_at_ms);
        let used: HashSet<usize> = self.series().map(|(_, _, index)| index).collect();
        let mut unused = (0..SERIES_MAX).filter(|index| !used.contains(index));
        let mut values = Vec::new();
        snapshot.root.walk(&mut |node| {
            sample::each(node, &mut |metric, value| {
                let known = self.names.get(&node.path).and_then(|metrics| metrics.get(metric)).copied();
                let Some(index) = known.or_else(|| unused.next()) else {
                    self.dropped_values += 1;
                    return;
                };
                if known.is_none() {
                    self.names.entry(node.path.clone()).or_default().insert(metric.to_owned(), index);
                }
                values.resize(values.len().max(index + 1), ABSENT);
                values[index] = value;
            });
        });
        self.samples.push_back(Sample { at_ms, values: values.into() });
        self.remove_old(at_ms.saturating_sub(RETENTION_MS));
    }

    /// Moves all samples by the jump of the wall clock since the last one, if it jumped. Times before 1970
    /// become 0.
    fn follow_clock(&mut self, snapshot: &TreeSnapshot) {
        let start_ms = snapshot.captured_at_ms as i64 - snapshot.uptime_ms as i64;
        let jump_ms = start_ms - self.start_ms.replace(start_ms).unwrap_or(start_ms);
        if jump_ms.abs() >= JUMP_MS {
            let times = self.samples.iter_mut().map(|sample| &mut sample.at_ms);
            times.for_each(|time| *time = time.saturating_add_signed(jump_ms));
        }
    }

    /// Removes samples from before `oldest_ms` and above the limit, but not the last one, and series without
    /// a value in any sample.
    fn remove_old(&mut self, oldest_ms: u64) {
        let mut bytes = self.bytes();
        while self.samples.len() > 1 && (self.samples[0].at_ms < oldest_ms || bytes > self.limit) {
            bytes -= self.samples[0].bytes();
            self.samples.pop_front();
        }
        let Self { samples, names, .. } = self;
        names.retain(|_, metrics| {
            metrics.retain(|_, index| samples.iter().rev().any(|sample| sample.value(*index) != ABSENT));
            !metrics.is_empty()
        });
    }

    /// True if a history that was read from a file may have been recorded until `now_ms`. The next sample of
    /// one from the future would be as late, whatever the clock says.
    fn is_possible(&self, now_ms: u64) -> bool {
        let indices: HashSet<usize> = self.series().map(|(_, _, index)| index).collect();
        self.samples.iter().is_sorted_by(|a, b| a.at_ms < b.at_ms)
            && self.last_ms().is_none_or(|last| last <= now_ms.saturating_add(STEP_MS))
            && indices.len() == self.series().count()
            && indices.iter().all(|index| *index < SERIES_MAX)
    }

    fn bytes(&self) -> usize {
        let names = self.series().map(|(path, metric, _)| path.len() + metric.len() + NAME_BYTES);
        let samples = self.samples.iter().map(Sample::bytes);
        names.chain(samples).sum()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes(),
            series: self.series().count(),
            dropped_values: self.dropped_values,
            samples: self.samples.len(),
            oldest_ms: self.samples.front().map(|sample| sample.at_ms),
        }
    }

    /// Path, metric and index of each series, in the order of paths and metrics.
    fn series(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.names.iter().flat_map(|(path, metrics)| {
            metrics.iter().map(|(metric, index)| (path.as_str(), metric.as_str(), *index))
        })
    }

    /// Series of the child at `path`; with `below` also those of its descendants. An empty `metrics` selects
    /// all. A metric's name selects all its labels.
    fn selected(
        &self,
        path: &str,
        below: bool,
        metrics: &[String],
    ) -> impl Iterator<Item = (&str, &str, usize)> {
        self.series().filter(move |(other, metric, _)| {
            let is_part = other
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || (below && rest.starts_with('/')));
            let name = name_of(metric);
            is_part && (metrics.is_empty() || metrics.iter().any(|one| one == metric || one == name))
        })
    }

    /// Number of series that [`History::columns`] would return.
    pub(crate) fn count(&self, path: &str, below: bool, metrics: &[String]) -> usize {
        self.selected(path, below, metrics).count()
    }

    pub(crate) fn columns(&self, path: &str, below: bool, metrics: &[String], since_ms: u64) -> Columns {
        let series = self.selected(path, below, metrics).map(|(path, metric, index)| Series {
            path: path.to_owned(),
            metric: metric.to_owned(),
            values: self.since(since_ms).map(|sample| sample.value(index)).collect(),
        });
        Columns { at_ms: self.since(since_ms).map(|sample| sample.at_ms).collect(), series: series.collect() }
    }

    /// Sum of each of the metrics over the child at `path` and its descendants.
    pub(crate) fn sums(&self, path: &str, metrics: &[String], since_ms: u64) -> Columns {
        let at_ms: Vec<u64> = self.since(since_ms).map(|sample| sample.at_ms).collect();
        let mut sums: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for (_, metric, index) in self.selected(path, true, metrics) {
            let sum = sums.entry(name_of(metric)).or_insert_with(|| vec![ABSENT; at_ms.len()]);
            let values = self.since(since_ms).map(|sample| sample.value(index));
            for (sum, value) in sum.iter_mut().zip(values).filter(|(_, value)| *value != ABSENT) {
                *sum = if *sum == ABSENT { value } else { sum.saturating_add(value) };
            }
        }
        let series = sums.into_iter().map(|(metric, values)| Series {
            path: path.to_owned(),
            metric: metric.to_owned(),
            values,
        });
        Columns { series: series.collect(), at_ms }
    }

    /// Samples since a time.
    fn since(&self, since_ms: u64) -> impl Iterator<Item = &Sample> {
        self.samples.range(self.samples.partition_point(|sample| sample.at_ms < since_ms)..)
    }

    /// Time and values of the last sample at or before `at_ms`.
    pub(crate) fn at(&self, at_ms: u64) -> Option<(u64, Values<'_>)> {
        let sample = self.samples.iter().rfind(|sample| sample.at_ms <= at_ms)?;
        let mut values = Values::new();
        for (path, metric, index) in self.series() {
            let value = sample.value(index);
            if value != ABSENT {
                values.entry(path).or_default().insert(metric, value);
            }
        }
        Some((sample.at_ms, values))
    }
}

/// Name of a metric without its label.
fn name_of(metric: &str) -> &str {
    metric.split('{').next().unwrap_or(metric)
}

#[cfg(test)]
pub(crate) mod tests;
