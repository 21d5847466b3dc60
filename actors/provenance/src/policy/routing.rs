//! Which range a key is in: the sender decides.

use sha1::{Digest, Sha1};

use super::Range;
use crate::row::{Rows, Sha1Git};

/// How a sender derives the range of a key. Senders that disagree send one key to two workers: then no longer one worker
/// alone writes it, so all of a site should use one.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// The first byte modulo sixteen: its low nibble.
    #[default]
    FirstByte,
    /// The first digit in hex: the high nibble of the first byte.
    FirstHexDigit,
}

impl Routing {
    /// The range of an entity, or of a relation's source.
    #[must_use]
    pub fn range_of_id(self, id: &Sha1Git) -> Range {
        self.range_of_byte(id.0[0])
    }

    /// The range of a path: that of its SHA1.
    #[must_use]
    pub fn range_of_path(self, path: &[u8]) -> Range {
        self.range_of_byte(Sha1::digest(path)[0])
    }

    fn range_of_byte(self, byte: u8) -> Range {
        match self {
            Self::FirstByte => Range::low_nibble(byte),
            Self::FirstHexDigit => Range::high_nibble(byte),
        }
    }
}

/// The rows of each range, ranges in order, rows of a range in the order given. No rows, no range.
#[must_use]
pub fn split(rows: Rows, routing: Routing) -> Vec<(Range, Rows)> {
    let ranges = ranges(&rows, routing);
    deal(rows, &ranges)
}

/// The range of each row.
pub(crate) fn ranges(rows: &Rows, routing: Routing) -> Vec<Range> {
    let by_id = |id: &Sha1Git| routing.range_of_id(id);
    match rows {
        Rows::Contents(rows) | Rows::Directories(rows) => rows.iter().map(|row| by_id(&row.0)).collect(),
        Rows::Revisions(rows) => rows.iter().map(|row| by_id(&row.0)).collect(),
        Rows::Origins(rows) => rows.iter().map(|row| by_id(&row.0)).collect(),
        Rows::Locations(rows) => rows.iter().map(|path| routing.range_of_path(path)).collect(),
        Rows::Relations(_, rows) => rows.iter().map(|row| by_id(&row.src)).collect(),
    }
}

/// As [`split`], with the range of each row at hand.
pub(crate) fn deal(rows: Rows, ranges: &[Range]) -> Vec<(Range, Rows)> {
    match rows {
        Rows::Contents(rows) => deal_as(rows, ranges, Rows::Contents),
        Rows::Directories(rows) => deal_as(rows, ranges, Rows::Directories),
        Rows::Revisions(rows) => deal_as(rows, ranges, Rows::Revisions),
        Rows::Origins(rows) => deal_as(rows, ranges, Rows::Origins),
        Rows::Locations(rows) => deal_as(rows, ranges, Rows::Locations),
        Rows::Relations(relation, rows) => deal_as(rows, ranges, |rows| Rows::Relations(relation, rows)),
    }
}

fn deal_as<T>(rows: Vec<T>, ranges: &[Range], wrap: impl Fn(Vec<T>) -> Rows) -> Vec<(Range, Rows)> {
    let mut dealt: [Vec<T>; Range::COUNT] = Default::default();
    for (row, range) in rows.into_iter().zip(ranges) {
        dealt[range.index()].push(row);
    }
    let filled = Range::ALL.into_iter().zip(dealt).filter(|(_, rows)| !rows.is_empty());
    filled.map(|(range, rows)| (range, wrap(rows))).collect()
}
