//! The msgpack bodies of requests and responses (CONTRACT PP09 to PP18). Pure.
//!
//! The format is msgpack with a dialect of its own on top (dates in ext types, dataclasses in tagged maps), so it is read
//! and written here by hand over `rmp`'s markers. Bodies come from strangers: every length is checked against what is left
//! of the body before anything is reserved, nothing recurses, and one item that makes no sense does not cost the others.

mod ack;
mod cursor;
mod date;
mod encoding;
mod item;
mod item_error;

pub use ack::{NotAnAck, decode_ack, encode_ack};
pub use encoding::{encode, encode_bare};
pub use item_error::ItemError;

use bytes::Bytes;

use crate::{method::Method, row::Rows, wire::cursor::Cursor};

/// The only key of a body that counts.
const DATA: &[u8] = b"data";

/// What a body holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The well-formed items, in order. Paths are slices of the body and keep it alive.
    pub rows: Rows,
    /// Where in `data` they are.
    pub positions: Positions,
    /// The other items, in order.
    pub malformed: Vec<Malformed>,
}

/// An item that can never be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Its position in `data`.
    pub position: u32,
    /// What is wrong with it.
    pub reason: ItemError,
}

/// Where in `data` the rows are, given that malformed items have a position but no row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Positions {
    /// For each malformed item, how many rows come before it.
    gaps: Vec<u32>,
}

/// Why nothing of a body can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Breaks off, or has a byte that starts no value.
    #[error("the body is no whole msgpack value: send one map, in one piece")]
    NotMsgpack,
    /// Another kind of value.
    #[error("the body is no map: send a map with the key data")]
    NotAMap,
    /// No such key.
    #[error("the body has no data: send a map with the key data")]
    NoData,
    /// Another kind of value.
    #[error("the body's data is no array: send an array of items")]
    DataNotArray,
    /// Something follows the map.
    #[error("{0} bytes follow the body's map: send one map and nothing else")]
    TrailingBytes(usize),
}

impl Positions {
    /// The position in `data` of the row at `row`.
    #[must_use]
    pub fn of(&self, row: u32) -> u32 {
        row.saturating_add(self.gaps.partition_point(|&before| before <= row) as u32)
    }
}

/// Reads a request's body.
///
/// # Errors
/// [`WireError`]: nothing of it can be used. Items that are malformed are no error.
pub fn decode(method: Method, body: &Bytes) -> Result<Decoded, WireError> {
    let whole = |path: &[u8]| body.slice_ref(path);
    walk(body, |cursor, count| match method {
        Method::ContentAdd => items(cursor, count, 23, item::dated, Rows::Contents),
        Method::DirectoryAdd => items(cursor, count, 23, item::dated, Rows::Directories),
        Method::RevisionAdd => items(cursor, count, 23, item::revision, Rows::Revisions),
        Method::OriginAdd => items(cursor, count, 24, item::origin, Rows::Origins),
        Method::LocationAdd => {
            items(cursor, count, 3, |cursor| item::location(cursor).map(whole), Rows::Locations)
        }
        Method::RelationAdd(relation) => items(
            cursor,
            count,
            46,
            |cursor| item::relation(cursor, whole),
            |rows| Rows::Relations(relation, rows),
        ),
    })
}

/// A body with only those items of `data`, in the order of the body and byte for byte as they were. Positions that the
/// body does not have are passed over.
///
/// # Errors
/// [`WireError`]: the body has no items to choose from.
pub fn excerpt(body: &Bytes, positions: &[u32]) -> Result<Bytes, WireError> {
    let mut wanted = positions.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    walk(body, |cursor, count| {
        let mut next = wanted.iter().copied().peekable();
        let (mut kept, mut chosen) = (Vec::new(), 0);
        for position in 0..count {
            let raw = cursor.raw_value().ok_or(WireError::NotMsgpack)?;
            if next.next_if_eq(&position).is_some() {
                kept.extend_from_slice(raw);
                chosen += 1;
            }
        }
        Ok(encoding::body(chosen, &kept))
    })
}

/// Finds `data` in a body and gives the cursor at its first item, with their number, to `read`. The last `data` counts, as
/// in the original.
fn walk<T>(
    body: &[u8],
    mut read: impl FnMut(&mut Cursor<'_>, u32) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut cursor = Cursor::new(body);
    let Some(entries) = cursor.or_back(Cursor::map_len) else {
        // Tells rubbish from a value of another kind.
        return Err(cursor.skip().map_or(WireError::NotMsgpack, |()| WireError::NotAMap));
    };
    let mut found = None;
    for _ in 0..entries {
        let key = cursor.raw_value().ok_or(WireError::NotMsgpack)?;
        if Cursor::new(key).text() != Some(DATA) {
            cursor.skip().ok_or(WireError::NotMsgpack)?;
            continue;
        }
        let Some(count) = cursor.or_back(Cursor::array_len) else {
            return Err(cursor.skip().map_or(WireError::NotMsgpack, |()| WireError::DataNotArray));
        };
        found = Some(read(&mut cursor, count)?);
    }
    match cursor.left() {
        0 => found.ok_or(WireError::NoData),
        left => Err(WireError::TrailingBytes(left)),
    }
}

/// Reads `count` items. `least` is how many bytes the shortest of them takes, which bounds what is reserved.
fn items<'a, T>(
    cursor: &mut Cursor<'a>,
    count: u32,
    least: usize,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, ItemError>,
    wrap: impl FnOnce(Vec<T>) -> Rows,
) -> Result<Decoded, WireError> {
    let mut rows = Vec::with_capacity((count as usize).min(cursor.left() / least));
    let (mut gaps, mut malformed) = (Vec::new(), Vec::new());
    for position in 0..count {
        let start = *cursor;
        match read(cursor) {
            Ok(row) => rows.push(row),
            Err(reason) => {
                *cursor = start;
                cursor.skip().ok_or(WireError::NotMsgpack)?;
                gaps.push(rows.len() as u32);
                malformed.push(Malformed { position, reason });
            }
        }
    }
    Ok(Decoded { rows: wrap(rows), positions: Positions { gaps }, malformed })
}

#[cfg(test)]
mod tests;
