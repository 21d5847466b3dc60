//! Encoding of requests, byte for byte as in the original's clients.
//!
//! Writing to a `Vec` cannot fail, so `rmp`'s results are ignored.

use bytes::Bytes;
use rmp::encode as rmp;

use super::date::{MICROS, TIMESTAMP};
use crate::row::{Date, RevisionData, Rows, Sha1Git};

/// Encodes a request's body, each key with its data or nil: the form that clients send for a
/// mapping.
#[must_use]
pub fn encode(rows: &Rows) -> Bytes {
    with_items(rows, false)
}

/// Encodes a request's body, keys without data as `[id]`: the form that clients send for a list of
/// keys.
#[cfg(test)]
pub(crate) fn encode_bare(rows: &Rows) -> Bytes {
    with_items(rows, true)
}

/// `items` are encoded.
pub(super) fn body(count: usize, items: &[u8]) -> Bytes {
    let mut out = head(count, items.len());
    out.extend_from_slice(items);
    out.into()
}

fn head(count: usize, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room + 11);
    _ = rmp::write_map_len(&mut out, 1);
    text(&mut out, "data");
    array(&mut out, count);
    out
}

fn with_items(rows: &Rows, bare: bool) -> Bytes {
    let mut out = head(rows.len(), rows.len() * 64);
    match rows {
        Rows::Contents(rows) | Rows::Directories(rows) => {
            for (id, when) in rows {
                keyed(&mut out, id, bare && when.is_none(), |out| date(out, *when));
            }
        }
        Rows::Revisions(rows) => {
            for (id, data) in rows {
                let alone = bare && *data == RevisionData::default();
                keyed(&mut out, id, alone, |out| revision_data(out, data));
            }
        }
        Rows::Origins(rows) => {
            for (id, url) in rows {
                keyed(&mut out, id, false, |out| text(out, url));
            }
        }
        Rows::Locations(rows) => {
            for path in rows {
                array(&mut out, 1);
                bin(&mut out, path);
            }
        }
        Rows::Relations(_, rows) => {
            for row in rows {
                array(&mut out, 3);
                bin(&mut out, &row.src.0);
                bin(&mut out, &row.dst.0);
                optional(&mut out, row.path.as_deref());
            }
        }
    }
    out.into()
}

fn keyed(out: &mut Vec<u8>, id: &Sha1Git, alone: bool, data: impl FnOnce(&mut Vec<u8>)) {
    array(out, if alone { 1 } else { 2 });
    bin(out, &id.0);
    if !alone {
        data(out);
    }
}

fn revision_data(out: &mut Vec<u8>, data: &RevisionData) {
    _ = rmp::write_map_len(out, 2);
    bin(out, b"swhtype");
    text(out, "dataclass");
    bin(out, b"d");
    _ = rmp::write_map_len(out, 3);
    text(out, "date");
    date(out, data.date);
    text(out, "origin");
    optional(out, data.origin.as_ref().map(|origin| &origin.0[..]));
    text(out, "__type__");
    text(out, "RevisionData");
}

/// Writes the shortest timestamp that holds the date.
fn date(out: &mut Vec<u8>, date: Option<Date>) {
    let Some(micros) = date.map(Date::micros) else {
        _ = rmp::write_nil(out);
        return;
    };
    let (seconds, nanos) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS) as u32 * 1000);
    match u64::try_from(seconds) {
        Ok(seconds) if nanos == 0 && seconds <= u64::from(u32::MAX) => {
            _ = rmp::write_ext_meta(out, 4, TIMESTAMP);
            out.extend_from_slice(&(seconds as u32).to_be_bytes());
        }
        Ok(seconds) if seconds < 1 << 34 => {
            _ = rmp::write_ext_meta(out, 8, TIMESTAMP);
            out.extend_from_slice(&(u64::from(nanos) << 34 | seconds).to_be_bytes());
        }
        _ => {
            _ = rmp::write_ext_meta(out, 12, TIMESTAMP);
            out.extend_from_slice(&nanos.to_be_bytes());
            out.extend_from_slice(&seconds.to_be_bytes());
        }
    }
}

fn optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => bin(out, bytes),
        None => _ = rmp::write_nil(out),
    }
}

fn array(out: &mut Vec<u8>, len: usize) {
    _ = rmp::write_array_len(out, len as u32);
}

fn bin(out: &mut Vec<u8>, bytes: &[u8]) {
    _ = rmp::write_bin(out, bytes);
}

fn text(out: &mut Vec<u8>, text: &str) {
    _ = rmp::write_str(out, text);
}
