//! Entries of streams: an id, and fields of which `data` is the one that counts. Taken apart by hand, so that an odd one costs
//! itself only.

use orchestrator_supervise::{sanitize, sanitize_to};
use redis::Value;

use super::connection::RequestError;

/// The field that has an entry's content.
const FIELD: &[u8] = b"data";
/// Bytes that are shown of an odd entry's field, and of its value.
const SHOWN: usize = 64;
/// Room for them when each byte is escaped.
const ESCAPED: usize = 10 * SHOWN;

/// An entry's id; the order of ids is the order of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64, u64);

impl Id {
    /// `ms-seq`; None if it is none.
    fn parse(text: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self(ms.parse().ok()?, seq.parse().ok()?))
    }

    /// The least one after this.
    pub(super) fn next(self) -> Self {
        match self.1.checked_add(1) {
            Some(seq) => Self(self.0, seq),
            None => Self(self.0.saturating_add(1), 0),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// One entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its id; None if that is none.
    pub(super) id: Option<Id>,
    /// Its content, or what is odd about it.
    pub(super) data: Result<Vec<u8>, String>,
}

/// The entries of a reply to XREAD of one stream, in order; none of one that timed out.
pub(super) fn of_read(reply: Value) -> Result<Vec<Entry>, RequestError> {
    let streams = match reply {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(streams) => streams.into_iter().map(named).collect::<Result<Vec<_>, _>>()?,
        // As version 3 of the protocol has it.
        Value::Map(streams) => streams.into_iter().map(|(_, entries)| entries).collect(),
        other => return Err(RequestError::odd(&other, "an array of streams")),
    };
    let mut entries = Vec::new();
    for stream in streams {
        entries.extend(of_range(stream)?);
    }
    Ok(entries)
}

/// The entries of a stream.
pub(super) fn of_range(reply: Value) -> Result<Vec<Entry>, RequestError> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries.into_iter().map(entry).collect()),
        other => Err(RequestError::odd(&other, "an array of entries")),
    }
}

/// An id by itself; None if there is no entry.
pub(super) fn of_id(reply: &Value) -> Result<Option<Id>, RequestError> {
    match reply {
        Value::Nil => Ok(None),
        other => {
            let id = text(other).and_then(Id::parse);
            id.map(Some).ok_or_else(|| RequestError::odd(other, "an entry's id"))
        }
    }
}

/// An odd value, to be told: its field, and how it begins.
pub(super) fn shown(field: &[u8], value: &[u8]) -> String {
    let begin = |bytes: &[u8]| sanitize_to(&bytes[..bytes.len().min(SHOWN)], ESCAPED);
    format!("field `{}` of {} bytes begins `{}`", begin(field), value.len(), begin(value))
}

/// The entries of a stream that comes with its name.
fn named(stream: Value) -> Result<Value, RequestError> {
    match stream {
        Value::Array(pair) => <[Value; 2]>::try_from(pair)
            .map(|[_, entries]| entries)
            .map_err(|pair| RequestError::odd(&Value::Array(pair), "a stream's name and entries")),
        other => Err(RequestError::odd(&other, "a stream's name and entries")),
    }
}

fn entry(entry: Value) -> Entry {
    let pair = match entry {
        Value::Array(pair) => <[Value; 2]>::try_from(pair).map_err(Value::Array),
        other => Err(other),
    };
    match pair {
        Ok([id, fields]) => Entry { id: text(&id).and_then(Id::parse), data: data(fields) },
        Err(other) => {
            Entry { id: None, data: Err(RequestError::odd(&other, "an id and fields").to_string()) }
        }
    }
}

/// The content: of repeated fields the last, as the original has it.
fn data(fields: Value) -> Result<Vec<u8>, String> {
    let (mut found, mut other) = (None, None);
    let mut take = |field: Value, value: Value| match text(&field) {
        Some(FIELD) => found = Some(value),
        _ => _ = other.get_or_insert((field, value)),
    };
    match fields {
        Value::Array(fields) => {
            let mut fields = fields.into_iter();
            while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
                take(field, value);
            }
        }
        Value::Map(fields) => fields.into_iter().for_each(|(field, value)| take(field, value)),
        // An entry that was deleted while it waited for its consumers.
        Value::Nil => {}
        odd => return Err(RequestError::odd(&odd, "fields").to_string()),
    }
    match (found, other) {
        // Moved, not copied: entries of assignments are long.
        (Some(Value::BulkString(data)), _) => Ok(data),
        (Some(Value::SimpleString(data)), _) => Ok(data.into_bytes()),
        (Some(odd), _) => Err(RequestError::odd(&odd, "text in field `data`").to_string()),
        (None, Some((field, value))) => Err(format!(
            "no field `data`: {}",
            shown(text(&field).unwrap_or_default(), text(&value).unwrap_or_default())
        )),
        (None, None) => Err(sanitize("no field `data`")),
    }
}

/// The bytes of a string.
fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
