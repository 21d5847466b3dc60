//! Range of a key, chosen by the sender.

use sha1::{Digest, Sha1};

use super::Range;
use crate::row::{Rows, Sha1Git};

/// Rule by which a sender derives the range of a key. All senders of a store must use the same
/// (CONTRACT PP06): otherwise two workers write one key.
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
    /// Low nibble of the first byte.
    #[default]
    FirstByte,
    /// High nibble of the first byte: the first hex digit.
    FirstHexDigit,
}

impl Routing {
    /// Range of an entity, or of a relation by its source.
    #[must_use]
    pub fn range_of_id(self, id: &Sha1Git) -> Range {
        self.range_of_byte(id.0[0])
    }

    /// Range of the SHA1 of the path.
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

/// Splits rows by range. Ranges are in order, rows of a range keep their order, and empty ranges
/// are left out.
#[cfg(any(test, feature = "postgres"))]
#[must_use]
pub fn split(rows: Rows, routing: Routing) -> Vec<(Range, Rows)> {
    let ranges = ranges(&rows, routing);
    split_by_ranges(rows, &ranges)
}

/// Range of each row: the low (`FirstByte`, the default) or high (`FirstHexDigit`) four bits of one byte.
/// That is the first byte of the identifier, of a relation's source or of the SHA-1 of a path. Each worker
/// handles one range of one exchange.
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

/// Splits rows by range, given that of each row. Ranges are in order, and rows of a range keep theirs.
pub(crate) fn split_by_ranges(rows: Rows, ranges: &[Range]) -> Vec<(Range, Rows)> {
    match rows {
        Rows::Contents(rows) => split_as(rows, ranges, Rows::Contents),
        Rows::Directories(rows) => split_as(rows, ranges, Rows::Directories),
        Rows::Revisions(rows) => split_as(rows, ranges, Rows::Revisions),
        Rows::Origins(rows) => split_as(rows, ranges, Rows::Origins),
        Rows::Locations(rows) => split_as(rows, ranges, Rows::Locations),
        Rows::Relations(relation, rows) => split_as(rows, ranges, |rows| Rows::Relations(relation, rows)),
    }
}

fn split_as<T>(rows: Vec<T>, ranges: &[Range], wrap: impl Fn(Vec<T>) -> Rows) -> Vec<(Range, Rows)> {
    let mut parts: [Vec<T>; Range::COUNT] = Default::default();
    for (row, range) in rows.into_iter().zip(ranges) {
        parts[range.index()].push(row);
    }
    let filled = Range::ALL.into_iter().zip(parts).filter(|(_, rows)| !rows.is_empty());
    filled.map(|(range, rows)| (range, wrap(rows))).collect()
}
