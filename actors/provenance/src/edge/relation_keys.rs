//! Keys by which the SQL stores order the rows of a relation in pages. Pure.

use crate::{
    listing::{End, Position},
    method::Relation,
};

/// Column of a relation with an id of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Id of the source.
    Source,
    /// Id of the destination.
    Destination,
    /// Id of the path.
    Location,
}

/// Keys that vary among the rows of `relation` with `end`, in the order of the index.
pub(crate) fn varying(relation: Relation, end: Option<End>) -> Vec<Key> {
    let mut keys = match end {
        None => vec![Key::Source, Key::Destination],
        Some(End::Source(_)) => vec![Key::Destination],
        Some(End::Destination(_)) => vec![Key::Source],
    };
    keys.extend(relation.has_path().then_some(Key::Location));
    keys
}

/// `count` keys of a page's end; below all keys if there is none.
pub(crate) fn decode(after: Option<&Position>, count: usize) -> Vec<i64> {
    let bytes = after.map_or(&[][..], |after| &after.0);
    let mut keys: Vec<i64> =
        bytes.as_chunks().0.iter().map(|key| i64::from_be_bytes(*key)).take(count).collect();
    keys.resize(count, i64::MIN);
    keys
}

/// `keys` are those of the page's last row.
pub(crate) fn encode(keys: &[i64]) -> Position {
    Position(keys.iter().flat_map(|key| key.to_be_bytes()).collect())
}
