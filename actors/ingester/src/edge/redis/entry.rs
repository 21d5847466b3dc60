//! Entries of Redis streams: an id and fields, of which `data` has the content. Parsed one by one,
//! so that an invalid entry does not affect the others.

use orchestrator_edge::PeerError;
use orchestrator_text::{sanitize, sanitize_to};
use redis::Value;

use super::connection::unexpected;

/// Field with an entry's content.
const FIELD: &[u8] = b"data";
/// Bytes shown of an invalid entry's field, and of its value.
const EXCERPT_BYTES: usize = 64;
/// Longest excerpt after escaping, bytes.
const EXCERPT_ESCAPED_BYTES: usize = 10 * EXCERPT_BYTES;

/// Id of an entry; ids are ordered as entries are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64, u64);

impl Id {
    /// Parses `ms-seq`.
    fn parse(text: &[u8]) -> Option<Self> {
        let (ms, seq) = std::str::from_utf8(text).ok()?.split_once('-')?;
        Some(Self(ms.parse().ok()?, seq.parse().ok()?))
    }

    /// The smallest id after this one.
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
    /// Id; None if it is malformed.
    pub(super) id: Option<Id>,
    /// Content, or the fault of the entry.
    pub(super) data: Result<Vec<u8>, String>,
}

/// Entries of an XREAD reply for one stream, in order; none after a time-out.
pub(super) fn parse_xread(reply: Value) -> Result<Vec<Entry>, PeerError> {
    let streams = match reply {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(streams) => streams.into_iter().map(entries_of_stream).collect::<Result<Vec<_>, _>>()?,
        // Form of RESP 3.
        Value::Map(streams) => streams.into_iter().map(|(_, entries)| entries).collect(),
        other => return Err(unexpected(&other, "an array of streams")),
    };
    let mut entries = Vec::new();
    for stream in streams {
        entries.extend(parse_xrange(stream)?);
    }
    Ok(entries)
}

/// Entries of an XRANGE reply.
pub(super) fn parse_xrange(reply: Value) -> Result<Vec<Entry>, PeerError> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(entries) => Ok(entries.into_iter().map(entry).collect()),
        other => Err(unexpected(&other, "an array of entries")),
    }
}

/// An entry's id; None for nil.
pub(super) fn parse_id(reply: &Value) -> Result<Option<Id>, PeerError> {
    match reply {
        Value::Nil => Ok(None),
        other => {
            let id = text(other).and_then(Id::parse);
            id.map(Some).ok_or_else(|| unexpected(other, "an entry's id"))
        }
    }
}

/// Excerpt of an invalid value: its field, length and beginning.
pub(super) fn excerpt(field: &[u8], value: &[u8]) -> String {
    let begin = |bytes: &[u8]| sanitize_to(&bytes[..bytes.len().min(EXCERPT_BYTES)], EXCERPT_ESCAPED_BYTES);
    format!("field `{}` of {} bytes begins `{}`", begin(field), value.len(), begin(value))
}

/// Entries of a stream that is preceded by its name.
fn entries_of_stream(stream: Value) -> Result<Value, PeerError> {
    match stream {
        Value::Array(pair) => <[Value; 2]>::try_from(pair)
            .map(|[_, entries]| entries)
            .map_err(|pair| unexpected(&Value::Array(pair), "a stream's name and entries")),
        other => Err(unexpected(&other, "a stream's name and entries")),
    }
}

fn entry(entry: Value) -> Entry {
    let pair = match entry {
        Value::Array(pair) => <[Value; 2]>::try_from(pair).map_err(Value::Array),
        other => Err(other),
    };
    match pair {
        Ok([id, fields]) => Entry { id: text(&id).and_then(Id::parse), data: data(fields) },
        Err(other) => Entry { id: None, data: Err(unexpected(&other, "an id and fields").to_string()) },
    }
}

/// Content of an entry; the last of repeated fields wins, as in the original.
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
        // The entry was deleted after it was delivered to a consumer group.
        Value::Nil => {}
        other => return Err(unexpected(&other, "fields").to_string()),
    }
    match (found, other) {
        // Moved, since entries of assignments are long.
        (Some(Value::BulkString(data)), _) => Ok(data),
        (Some(Value::SimpleString(data)), _) => Ok(data.into_bytes()),
        (Some(other), _) => Err(unexpected(&other, "text in field `data`").to_string()),
        (None, Some((field, value))) => Err(format!(
            "no field `data`: {}",
            excerpt(text(&field).unwrap_or_default(), text(&value).unwrap_or_default())
        )),
        (None, None) => Err(sanitize("no field `data`")),
    }
}

/// Bytes of a string.
fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
