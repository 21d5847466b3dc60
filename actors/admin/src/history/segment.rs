//! A segment of the history: consecutive samples, with a column for each series. No I/O.

use std::{collections::HashMap, mem::size_of};

use serde::{Deserialize, Serialize};

use super::column::{ABSENT, Column};

/// Maximum number of samples in a segment.
pub(super) const TICKS_MAX: usize = 60;
/// Memory of a column without its changes, in bytes: its entry in the map, which is at least half full.
const COLUMN_BYTES: usize = 2 * (size_of::<Column>() + size_of::<u32>());

/// Consecutive samples.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Segment {
    /// Number of the segment, ascending in the history.
    pub(super) number: u64,
    times: Vec<u64>,
    columns: HashMap<u32, Column>,
    /// Memory in bytes, once the segment is full.
    #[serde(skip)]
    closed_bytes: Option<usize>,
}

impl Segment {
    pub(super) fn new(number: u64) -> Self {
        Self { number, times: Vec::with_capacity(TICKS_MAX), columns: HashMap::new(), closed_bytes: None }
    }

    pub(super) fn begin(&mut self, at_ms: u64) {
        self.times.push(at_ms);
    }

    pub(super) fn push(&mut self, id: u32, value: i64) {
        let tick = self.last_tick();
        match self.columns.get_mut(&id) {
            Some(column) => column.push(tick, value),
            None => {
                self.columns.insert(id, Column::new(tick, value));
            }
        }
    }

    /// Ends the current sample. Series without a value in it become absent.
    pub(super) fn end(&mut self) {
        let tick = self.last_tick();
        self.columns.values_mut().for_each(|column| column.end(tick));
    }

    /// Moves all samples by `by_ms`. Times before 1970 become 0.
    pub(super) fn shift(&mut self, by_ms: i64) {
        self.times.iter_mut().for_each(|time| *time = time.saturating_add_signed(by_ms));
    }

    /// Releases unused memory. No samples are added later.
    pub(super) fn close(&mut self) {
        self.columns.values_mut().for_each(Column::shrink);
        self.columns.shrink_to_fit();
        self.closed_bytes = Some(self.count_bytes());
    }

    /// Keeps every second sample, counted back from the last one.
    pub(super) fn halved(self) -> Self {
        let ticks = self.ticks();
        let is_kept = |tick: &usize| (ticks - 1 - tick).is_multiple_of(2);
        let kept: Vec<usize> = (0..ticks).filter(is_kept).collect();
        let times = kept.iter().map(|tick| self.times[*tick]).collect();
        let columns = self.columns.into_iter().filter_map(|(id, column)| {
            let values = column.values(ticks);
            Some((id, column_of(0, kept.iter().map(|tick| values[*tick]))?))
        });
        Self { number: self.number, times, columns: columns.collect(), closed_bytes: None }
    }

    pub(super) fn append(&mut self, next: &Segment) {
        let start = self.ticks();
        self.number = next.number;
        self.times.extend(&next.times);
        let last = self.last_tick();
        for (id, column) in &next.columns {
            let values = column.values(next.ticks());
            match self.columns.get_mut(id) {
                Some(known) => {
                    for (value, tick) in values.into_iter().zip(start as u16..) {
                        known.push(tick, value);
                    }
                }
                None => self.columns.extend(column_of(start, values.into_iter()).map(|column| (*id, column))),
            }
        }
        for (id, column) in &mut self.columns {
            if !next.columns.contains_key(id) {
                column.push(start as u16, ABSENT);
            }
            column.end(last);
        }
    }

    /// True if a segment that was read from a file may have been recorded.
    pub(super) fn is_possible(&self) -> bool {
        let ticks = self.ticks();
        (1..=TICKS_MAX).contains(&ticks) && self.columns.values().all(|column| column.is_possible(ticks))
    }

    pub(super) fn ticks(&self) -> usize {
        self.times.len()
    }

    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.times.iter().copied()
    }

    pub(super) fn last_ms(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// Appends the values of a series, one for each sample.
    pub(super) fn values(&self, id: u32, to: &mut Vec<i64>) {
        match self.columns.get(&id) {
            Some(column) => to.extend(column.values(self.ticks())),
            None => to.extend(std::iter::repeat_n(ABSENT, self.ticks())),
        }
    }

    pub(super) fn value(&self, id: u32, tick: usize) -> Option<i64> {
        let value = self.columns.get(&id)?.values(tick + 1).pop()?;
        (value != ABSENT).then_some(value)
    }

    pub(super) fn bytes(&self) -> usize {
        self.closed_bytes.unwrap_or_else(|| self.count_bytes())
    }

    fn count_bytes(&self) -> usize {
        let changes: usize = self.columns.values().map(Column::heap_bytes).sum();
        size_of::<Self>() + TICKS_MAX * size_of::<u64>() + self.columns.len() * COLUMN_BYTES + changes
    }

    fn last_tick(&self) -> u16 {
        self.ticks().saturating_sub(1) as u16
    }
}

/// Builds a column of `values` that begin at `tick`. Returns `None` if all are absent.
fn column_of(tick: usize, values: impl Iterator<Item = i64>) -> Option<Column> {
    let mut values = (tick as u16..).zip(values).skip_while(|(_, value)| *value == ABSENT);
    let (first, value) = values.next()?;
    let mut column = Column::new(first, value);
    values.for_each(|(tick, value)| column.push(tick, value));
    column.shrink();
    Some(column)
}
