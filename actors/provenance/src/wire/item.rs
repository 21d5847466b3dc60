//! Items of each method (CONTRACT PP10 to PP14).

use bytes::Bytes;

use super::{
    cursor::{Cursor, id},
    date,
    item_error::ItemError,
};
use crate::row::{Date, RelationRow, RevisionData, Sha1Git};

/// Reads `[id]` or `[id, date]`.
pub(super) fn dated(cursor: &mut Cursor<'_>) -> Result<(Sha1Git, Option<Date>), ItemError> {
    let len = array(cursor, 1..=2, "an id and a date or nil")?;
    Ok((read_id(cursor)?, if len > 1 { date::read(cursor)? } else { None }))
}

/// Reads `[id]`, `[id, nil]` or `[id, RevisionData]`.
pub(super) fn revision(cursor: &mut Cursor<'_>) -> Result<(Sha1Git, RevisionData), ItemError> {
    let len = array(cursor, 1..=2, "an id and its data")?;
    let id = read_id(cursor)?;
    let data = if len == 1 || cursor.nil() { RevisionData::default() } else { revision_data(cursor)? };
    Ok((id, data))
}

/// Reads `[id, url]`.
pub(super) fn origin(cursor: &mut Cursor<'_>) -> Result<(Sha1Git, String), ItemError> {
    array(cursor, 2..=2, "an id and a url")?;
    let id = read_id(cursor)?;
    let url = cursor.text().and_then(|url| std::str::from_utf8(url).ok()).ok_or(ItemError::Url)?;
    Ok((id, url.to_owned()))
}

/// Reads `[path]`.
pub(super) fn location<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ItemError> {
    array(cursor, 1..=1, "one path")?;
    cursor.bin().ok_or(ItemError::Path)
}

/// Reads `[src, dst, path or nil]`.
pub(super) fn relation(
    cursor: &mut Cursor<'_>,
    own: impl Fn(&[u8]) -> Bytes,
) -> Result<RelationRow, ItemError> {
    array(cursor, 3..=3, "source, destination and path or nil")?;
    let (src, dst) = (read_id(cursor)?, read_id(cursor)?);
    let path = if cursor.nil() { None } else { Some(own(cursor.bin().ok_or(ItemError::Path)?)) };
    Ok(RelationRow { src, dst, path })
}

/// Reads the tagged dataclass: exactly its three fields, in any order.
fn revision_data(cursor: &mut Cursor<'_>) -> Result<RevisionData, ItemError> {
    let (name, mut fields) = cursor.tagged().ok_or(ItemError::RevisionData)?;
    let count = fields.map_len().filter(|_| name == b"dataclass").ok_or(ItemError::RevisionData)?;
    let (mut date, mut origin, mut class) = (None, None, None);
    for _ in 0..count {
        match fields.text() {
            Some(b"date") => date = Some(date::read(&mut fields)?),
            Some(b"origin") if fields.nil() => origin = Some(None),
            Some(b"origin") => origin = Some(Some(read_id(&mut fields)?)),
            Some(b"__type__") => class = fields.text(),
            _ => return Err(ItemError::RevisionData),
        }
    }
    match (date, origin, class) {
        (Some(date), Some(origin), Some(b"RevisionData")) => Ok(RevisionData { date, origin }),
        _ => Err(ItemError::RevisionData),
    }
}

fn array(
    cursor: &mut Cursor<'_>,
    lens: std::ops::RangeInclusive<u32>,
    shape: &'static str,
) -> Result<u32, ItemError> {
    cursor.array_len().filter(|len| lens.contains(len)).ok_or(ItemError::Shape(shape))
}

fn read_id(cursor: &mut Cursor<'_>) -> Result<Sha1Git, ItemError> {
    cursor.bin().and_then(id).ok_or(ItemError::Id)
}
