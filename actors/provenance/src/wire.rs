//! Msgpack bodies of requests and responses (CONTRACT PP09 to PP18). Pure.
//!
//! The format adds conventions to msgpack (dates in ext types, dataclasses in tagged maps), so it
//! is decoded directly over `rmp`'s markers. Bodies are untrusted: each length is checked against
//! the rest of the body before memory is reserved. Nothing recurses, and a malformed item does not
//! affect the others.

mod ack;
mod cursor;
mod date;
mod encoding;
mod item;
mod item_error;

pub(crate) use ack::{decode_ack, encode_ack};
pub use encoding::encode;
#[cfg(test)]
pub(crate) use encoding::encode_bare;
pub(crate) use item_error::ItemError;

use bytes::Bytes;

use crate::{method::Method, row::Rows, wire::cursor::Cursor};

/// Key of the items; other keys are ignored.
const DATA: &[u8] = b"data";
/// Maximum number of items in a body. A malformed item may have one byte, and its report has 28.
const ITEMS_MAX: u32 = 4 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Well-formed items, in order. Paths are slices of the body and keep it alive.
    pub rows: Rows,
    /// Their positions in `data`.
    pub positions: Positions,
    /// Malformed items, in order.
    pub malformed: Vec<Malformed>,
}

/// Malformed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Position in `data`.
    pub position: u32,
    pub reason: ItemError,
}

/// Mapping from rows to positions in `data`, since malformed items have a position but no row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Positions {
    /// For each malformed item, the number of rows before it.
    gaps: Vec<u32>,
}

/// Error of a whole body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// The body is truncated or has a byte that starts no value.
    #[error("the body is not a complete msgpack value: send one map")]
    NotMsgpack,
    /// The body is another kind of value.
    #[error("the body is not a map: send a map with the key data")]
    NotAMap,
    /// The key `data` is missing.
    #[error("the body has no data: send a map with the key data")]
    NoData,
    /// `data` is another kind of value.
    #[error("the body's data is not an array: send an array of items")]
    DataNotArray,
    /// `data` has more than 4,194,304 items.
    #[error("the body has {0} items, more than {ITEMS_MAX}: send them in several messages")]
    TooManyItems(u32),
    /// Bytes follow the map.
    #[error("{0} bytes follow the body's map: send one map and nothing else")]
    TrailingBytes(usize),
}

impl Positions {
    /// Position in `data` of the row at index `row`.
    #[must_use]
    pub(crate) fn of(&self, row: u32) -> u32 {
        row.saturating_add(self.gaps.partition_point(|&before| before <= row) as u32)
    }
}

/// Decodes the body of a request.
///
/// # Errors
/// [`WireError`] if the whole body is unusable. Malformed items are returned, not an error.
pub(crate) fn decode(method: Method, body: &Bytes) -> Result<Decoded, WireError> {
    let whole = |path: &[u8]| body.slice_ref(path);
    read_data(body, |cursor, count| match method {
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

/// Returns a body with only the items of `data` at `positions`, in their order and byte for byte.
/// Positions beyond the items are ignored.
///
/// # Errors
/// [`WireError`]: the body cannot be decoded.
pub(crate) fn excerpt(body: &Bytes, positions: &[u32]) -> Result<Bytes, WireError> {
    let mut wanted = positions.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    read_data(body, |cursor, count| {
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

/// Finds `data` in a body and calls `read` with the cursor at its first item and the number of
/// items. The last `data` counts, as in the original.
fn read_data<T>(
    body: &[u8],
    mut read: impl FnMut(&mut Cursor<'_>, u32) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut cursor = Cursor::new(body);
    let Some(entries) = cursor.try_read(Cursor::map_len) else {
        // Distinguishes invalid bytes from a value of another kind.
        return Err(cursor.skip().map_or(WireError::NotMsgpack, |()| WireError::NotAMap));
    };
    let mut found = None;
    for _ in 0..entries {
        let key = cursor.raw_value().ok_or(WireError::NotMsgpack)?;
        if Cursor::new(key).text() != Some(DATA) {
            cursor.skip().ok_or(WireError::NotMsgpack)?;
            continue;
        }
        let Some(count) = cursor.try_read(Cursor::array_len) else {
            return Err(cursor.skip().map_or(WireError::NotMsgpack, |()| WireError::DataNotArray));
        };
        if count as usize > cursor.left() {
            return Err(WireError::NotMsgpack);
        }
        if count > ITEMS_MAX {
            return Err(WireError::TooManyItems(count));
        }
        found = Some(read(&mut cursor, count)?);
    }
    match cursor.left() {
        0 => found.ok_or(WireError::NoData),
        left => Err(WireError::TrailingBytes(left)),
    }
}

/// Reads `count` items. `least` is the minimum size of an item in bytes, which bounds the reserved
/// memory.
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
