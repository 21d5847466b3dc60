//! The values of one series in a segment: the first value, then each change as two variable-length numbers.
//! No I/O.

use serde::{Deserialize, Serialize};

/// Marker for a missing value: the series was not in the sample.
pub(crate) const ABSENT: i64 = i64::MIN;

/// Values of one series. A tick is the index of a sample in the segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    first: i64,
    last: i64,
    first_tick: u16,
    /// Tick of the last change.
    last_tick: u16,
    /// Tick of the last value, including unchanged ones.
    seen: u16,
    /// For each change: the ticks since the last one, and the difference.
    changes: Vec<u8>,
}

impl Column {
    /// Creates a series that begins at `tick`.
    pub(super) fn new(tick: u16, value: i64) -> Self {
        Self { first: value, last: value, first_tick: tick, last_tick: tick, seen: tick, changes: Vec::new() }
    }

    /// Adds the value of a later tick.
    pub(super) fn push(&mut self, tick: u16, value: i64) {
        self.seen = tick;
        if value == self.last {
            return;
        }
        write(&mut self.changes, u64::from(tick - self.last_tick));
        let difference = value.wrapping_sub(self.last);
        write(&mut self.changes, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
        (self.last, self.last_tick) = (value, tick);
    }

    /// Records that the sample of this tick has no value, unless one was pushed.
    pub(super) fn end(&mut self, tick: u16) {
        if self.seen != tick {
            self.push(tick, ABSENT);
        }
    }

    /// Values of the first `ticks` ticks.
    pub(super) fn values(&self, ticks: usize) -> Vec<i64> {
        let mut values = vec![ABSENT; usize::from(self.first_tick).min(ticks)];
        let (mut value, mut rest) = (self.first, self.changes.as_slice());
        let mut tick = u64::from(self.first_tick);
        while let Some((skipped, after)) = read(rest) {
            let Some((coded, after)) = read(after) else { break };
            tick = tick.saturating_add(skipped);
            let end = usize::try_from(tick).unwrap_or(usize::MAX).min(ticks);
            values.resize(end.max(values.len()), value);
            value = value.wrapping_add((coded >> 1).cast_signed() ^ -(coded & 1).cast_signed());
            rest = after;
        }
        values.resize(ticks, value);
        values
    }

    /// True if the ticks of a column that was read from a file are in order, and below `ticks`.
    pub(super) fn is_possible(&self, ticks: usize) -> bool {
        self.first_tick <= self.last_tick && self.last_tick <= self.seen && usize::from(self.seen) < ticks
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.changes.capacity()
    }

    pub(super) fn shrink(&mut self) {
        self.changes.shrink_to_fit();
    }
}

/// Appends a number in groups of seven bits, the lowest first. The top bit of a byte marks that another one
/// follows.
fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number as u8) | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (i, byte) in bytes.iter().enumerate() {
        // A file may hold more groups than any number has.
        number |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(i).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_restored() {
        let values = [3, 3, -7, ABSENT, ABSENT, i64::MAX, 0, 0, i64::MIN + 1, 1];
        let mut column = Column::new(2, values[0]);
        for (tick, value) in (3u16..).zip(&values[1..]) {
            if *value != ABSENT {
                column.push(tick, *value);
            }
            column.end(tick);
        }
        let mut expected = vec![ABSENT; 2];
        expected.extend(values);
        assert_eq!(column.values(12), expected);
        assert_eq!(column.values(4), expected[..4]);
        assert_eq!(column.values(1), expected[..1]);
        expected.extend([1, 1]);
        assert_eq!(column.values(14), expected, "the last value is repeated");
    }

    #[test]
    fn unchanged_values_take_no_memory() {
        let mut column = Column::new(0, 5);
        (1..60).for_each(|tick| column.push(tick, 5));
        assert_eq!(column.heap_bytes(), 0);
    }
}
