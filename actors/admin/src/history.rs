//! The history of the tree: samples of the last hour, in limited memory. No I/O; the caller provides the
//! time.
//!
//! A sample has a value for each series, identified by a child's path and a metric. Segments hold
//! [`TICKS_MAX`] samples each, with a [`column::Column`] for each series that stores changes only. Near the
//! limit, every second sample is dropped and the interval is doubled. If the wall clock jumps, the times of
//! all samples are changed, so that their age stays right.

mod column;
mod file;
mod past;
mod sample;
mod segment;

pub(crate) use column::ABSENT;
pub(crate) use file::{load, store};
pub(crate) use past::rewind;
pub(crate) use sample::{LINK_STATES, STATES};

use std::collections::{BTreeMap, HashMap, VecDeque};

use orchestrator_supervise::TreeSnapshot;
use serde::{Deserialize, Serialize};

use crate::history::{
    sample::Values,
    segment::{Segment, TICKS_MAX},
};

/// Maximum memory of the history, in bytes.
pub(crate) const LIMIT_BYTES: usize = 32 * 1024 * 1024;
/// Time between two samples at full resolution, in milliseconds.
pub(crate) const STEP_MS: u64 = 5_000;
/// Maximum age of a sample, in milliseconds.
pub(crate) const RETENTION_MS: u64 = 3_600_000;
/// Smallest jump of the clock that changes the times of samples, in milliseconds.
const JUMP_MS: i64 = 1_000;
/// Maximum number of series. Values of further series are dropped.
const SERIES_MAX: usize = 50_000;
/// Estimated memory of a series' entry in the table of names, without its name, in bytes.
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
    pub(crate) step_ms: u64,
    pub(crate) oldest_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Name {
    id: u32,
    /// Number of the last segment with this series.
    segment: u64,
}

/// The recorded history.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct History {
    /// Limit of the memory, in bytes.
    #[serde(skip)]
    limit: usize,
    step_ms: u64,
    segments: VecDeque<Segment>,
    /// Series by path and metric.
    names: BTreeMap<String, BTreeMap<String, Name>>,
    series: usize,
    name_bytes: usize,
    next_id: u32,
    last_ms: Option<u64>,
    /// Wall clock at the start of the process, according to the last sample, in milliseconds.
    #[serde(skip)]
    start_ms: Option<i64>,
    dropped_values: u64,
}

impl History {
    /// Creates an empty history with a limit in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            step_ms: STEP_MS,
            segments: VecDeque::new(),
            names: BTreeMap::new(),
            series: 0,
            name_bytes: 0,
            next_id: 0,
            last_ms: None,
            start_ms: None,
            dropped_values: 0,
        }
    }

    /// The clock may have been set back.
    pub(crate) fn is_due(&self, at_ms: u64) -> bool {
        self.last_ms.is_none_or(|last| at_ms.abs_diff(last) + STEP_MS / 10 >= self.step_ms)
    }

    pub(crate) fn record(&mut self, snapshot: &TreeSnapshot) {
        self.follow_clock(snapshot);
        let at_ms = self.last_ms.map_or(0, |last| last + 1).max(snapshot.captured_at_ms);
        self.last_ms = Some(at_ms);
        if self.segments.back().is_none_or(|segment| segment.ticks() == TICKS_MAX) {
            if let Some(full) = self.segments.back_mut() {
                full.close();
            }
            self.remove_before(at_ms.saturating_sub(RETENTION_MS));
            let number = self.segments.back().map_or(0, |segment| segment.number + 1);
            self.segments.push_back(Segment::new(number));
        }
        self.add(at_ms, snapshot);
        // An eighth of the limit is kept free for the next sample.
        while self.bytes() > self.limit - self.limit / 8 && self.samples() > 2 {
            self.halve_resolution();
        }
    }

    /// Moves all samples by the jump of the wall clock since the last one, if it jumped.
    fn follow_clock(&mut self, snapshot: &TreeSnapshot) {
        let start_ms = snapshot.captured_at_ms as i64 - snapshot.uptime_ms as i64;
        let jump_ms = start_ms - self.start_ms.replace(start_ms).unwrap_or(start_ms);
        if jump_ms.abs() >= JUMP_MS {
            self.segments.iter_mut().for_each(|segment| segment.shift(jump_ms));
            self.last_ms = self.segments.back().and_then(|segment| segment.times().last());
        }
    }

    fn add(&mut self, at_ms: u64, snapshot: &TreeSnapshot) {
        let Self { segments, names, series, name_bytes, next_id, dropped_values, .. } = self;
        let Some(segment) = segments.back_mut() else { return };
        segment.begin(at_ms);
        snapshot.root.walk(&mut |node| {
            if !names.contains_key(&node.path) {
                names.insert(node.path.clone(), BTreeMap::new());
                *name_bytes += node.path.len() + NAME_BYTES;
            }
            let Some(metrics) = names.get_mut(&node.path) else { return };
            sample::each(node, &mut |metric, value| {
                if let Some(name) = metrics.get_mut(metric) {
                    name.segment = segment.number;
                    segment.push(name.id, value);
                } else if *series < SERIES_MAX {
                    metrics.insert(metric.to_owned(), Name { id: *next_id, segment: segment.number });
                    *series += 1;
                    *name_bytes += metric.len() + NAME_BYTES;
                    segment.push(*next_id, value);
                    *next_id = next_id.wrapping_add(1);
                } else {
                    *dropped_values += 1;
                }
            });
        });
        segment.end();
    }

    /// Halves the resolution of past and future samples.
    fn halve_resolution(&mut self) {
        self.step_ms *= 2;
        let mut merged: VecDeque<Segment> = VecDeque::new();
        for segment in std::mem::take(&mut self.segments) {
            let halved = segment.halved();
            match merged.back_mut().filter(|last| last.ticks() + halved.ticks() <= TICKS_MAX) {
                Some(last) => last.append(&halved),
                None => merged.push_back(halved),
            }
        }
        self.segments = merged;
    }

    fn remove_before(&mut self, at_ms: u64) {
        while self.segments.front().is_some_and(|segment| segment.last_ms() < at_ms) {
            self.segments.pop_front();
        }
        let oldest = self.segments.front().map_or(u64::MAX, |segment| segment.number);
        let Self { names, series, name_bytes, .. } = self;
        // Series of removed children expire.
        names.retain(|path, metrics| {
            metrics.retain(|metric, name| {
                let kept = name.segment >= oldest;
                if !kept {
                    *series -= 1;
                    *name_bytes -= metric.len() + NAME_BYTES;
                }
                kept
            });
            if metrics.is_empty() {
                *name_bytes -= path.len() + NAME_BYTES;
            }
            !metrics.is_empty()
        });
    }

    /// True if a history that was read from a file may have been recorded until `now_ms`. The next sample of
    /// one from the future would be as late, whatever the clock says.
    fn is_possible(&self, now_ms: u64) -> bool {
        let times = || self.segments.iter().flat_map(Segment::times);
        let metrics = || self.names.values().flatten();
        let names = self.names.keys().chain(metrics().map(|(metric, _)| metric));
        (STEP_MS..=2 * RETENTION_MS).contains(&self.step_ms)
            && times().is_sorted_by(|a, b| a < b)
            && times().last() == self.last_ms
            && self.last_ms.is_none_or(|last| last <= now_ms.saturating_add(STEP_MS))
            && self.segments.iter().is_sorted_by(|a, b| a.number < b.number)
            && self.segments.iter().all(Segment::is_possible)
            && metrics().count() == self.series
            && names.map(|name| name.len() + NAME_BYTES).sum::<usize>() == self.name_bytes
            && self.bytes() <= self.limit
    }

    fn bytes(&self) -> usize {
        self.name_bytes + self.segments.iter().map(Segment::bytes).sum::<usize>()
    }

    fn samples(&self) -> usize {
        self.segments.iter().map(Segment::ticks).sum()
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes(),
            series: self.series,
            dropped_values: self.dropped_values,
            samples: self.samples(),
            step_ms: self.step_ms,
            oldest_ms: self.segments.front().and_then(|segment| segment.times().next()),
        }
    }

    /// Ids of the series of the child at `path`; with `below` also those of its descendants. An empty
    /// `metrics` selects all. A metric's name selects all its labels.
    fn selected<'a>(
        &'a self,
        path: &'a str,
        below: bool,
        metrics: &'a [String],
    ) -> impl Iterator<Item = (&'a str, &'a str, u32)> {
        let is_part = move |other: &str| {
            other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || (below && rest.starts_with('/')))
        };
        let is_selected = move |metric: &str| {
            let name = metric.split('{').next().unwrap_or(metric);
            metrics.is_empty() || metrics.iter().any(|one| one == metric || one == name)
        };
        self.names.iter().filter(move |(other, _)| is_part(other)).flat_map(move |(path, names)| {
            let names = names.iter().filter(move |(metric, _)| is_selected(metric));
            names.map(|(metric, name)| (path.as_str(), metric.as_str(), name.id))
        })
    }

    /// Number of series that [`History::columns`] would return.
    pub(crate) fn count(&self, path: &str, below: bool, metrics: &[String]) -> usize {
        self.selected(path, below, metrics).count()
    }

    pub(crate) fn columns(&self, path: &str, below: bool, metrics: &[String], since_ms: u64) -> Columns {
        let (at_ms, skipped) = self.times(since_ms);
        let selected = self.selected(path, below, metrics);
        let series = selected.map(|(path, metric, id)| Series {
            path: path.to_owned(),
            metric: metric.to_owned(),
            values: self.values(id, skipped),
        });
        Columns { series: series.collect(), at_ms }
    }

    /// Sum of each of the metrics over the child at `path` and its descendants.
    pub(crate) fn sums(&self, path: &str, metrics: &[String], since_ms: u64) -> Columns {
        let (at_ms, skipped) = self.times(since_ms);
        let mut sums: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for (_, metric, id) in self.selected(path, true, metrics) {
            let name = metric.split('{').next().unwrap_or(metric);
            let sum = sums.entry(name).or_insert_with(|| vec![ABSENT; at_ms.len()]);
            let values = self.values(id, skipped);
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

    /// Times of the samples since a time, and the number of samples before it.
    fn times(&self, since_ms: u64) -> (Vec<u64>, usize) {
        let mut times: Vec<u64> = self.segments.iter().flat_map(Segment::times).collect();
        let skipped = times.partition_point(|at| *at < since_ms);
        (times.split_off(skipped), skipped)
    }

    /// Values of a series behind the first `skipped` ones.
    fn values(&self, id: u32, skipped: usize) -> Vec<i64> {
        let mut values = Vec::new();
        self.segments.iter().for_each(|segment| segment.values(id, &mut values));
        values.split_off(skipped)
    }

    /// Time and values of the last sample at or before `at_ms`.
    pub(crate) fn at(&self, at_ms: u64) -> Option<(u64, Values<'_>)> {
        let segment = self.segments.iter().rev().find(|segment| segment.times().any(|time| time <= at_ms))?;
        let tick = segment.times().take_while(|time| *time <= at_ms).count() - 1;
        let time = segment.times().nth(tick)?;
        let mut values = Values::new();
        for (path, names) in &self.names {
            let metrics = names
                .iter()
                .filter_map(|(metric, name)| Some((metric.as_str(), segment.value(name.id, tick)?)));
            let metrics: HashMap<_, _> = metrics.collect();
            if !metrics.is_empty() {
                values.insert(path, metrics);
            }
        }
        Some((time, values))
    }
}

#[cfg(test)]
pub(crate) mod tests;
