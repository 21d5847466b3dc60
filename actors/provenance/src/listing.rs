//! Listings: rows of a store that are read in pages (CONTRACT PD16), and their arguments. Pure.

use bytes::Bytes;
use orchestrator_subsystem::ConsoleError;
use orchestrator_text::sanitize;

use crate::{
    method::{Entity, Relation},
    row::Sha1Git,
};

/// Names of the listings, as in commands and routes.
const NAMES: &str = "relations, entities, locations";
/// Maximum number of identifiers in one request.
const IDS_MAX: usize = 1_000;

/// Rows to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Identifiers of a kind (`entity_get_all`).
    Entities(Entity),
    /// Paths (`location_get_all`).
    Locations,
    /// Rows of a relation: those with one end (`relation_get`), or all (`relation_get_all`).
    Relation(Relation, Option<End>),
}

/// One end of the rows of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The rows with this source.
    Source(Sha1Git),
    /// The rows with this destination.
    Destination(Sha1Git),
}

/// End of a page, after which the next page begins. Its encoding is the store's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position(pub(crate) Bytes);

impl Listing {
    /// Name in the original's interface.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Entities(_) => "entity_get_all",
            Self::Locations => "location_get_all",
            Self::Relation(_, Some(_)) => "relation_get",
            Self::Relation(_, None) => "relation_get_all",
        }
    }

    /// Parses a request into listings, to be read in order.
    ///
    /// # Errors
    /// The name or an argument is unknown, missing or invalid.
    pub(crate) fn parse(name: &str, args: &[(String, String)]) -> Result<Vec<Self>, ConsoleError> {
        match name {
            "entities" => Ok(vec![Self::Entities(one_of("kind", args, &Entity::ALL, Entity::value)?)]),
            "locations" => no_others(args, &[]).map(|()| vec![Self::Locations]),
            "relations" => relations(args),
            _ => Err(ConsoleError::UnknownVerb(NAMES.to_owned())),
        }
    }
}

fn relations(args: &[(String, String)]) -> Result<Vec<Listing>, ConsoleError> {
    let (own, rest): (Vec<_>, Vec<_>) =
        args.iter().cloned().partition(|(name, _)| matches!(name.as_str(), "id" | "reverse"));
    let relation = one_of("relation", &rest, &Relation::ALL, Relation::value)?;
    let mut is_reverse = false;
    let mut ids = Vec::new();
    for (name, value) in &own {
        match (name.as_str(), value.as_str()) {
            ("id", id) => ids.push(id.parse().map_err(|error| bad(format!("{id}: {error}")))?),
            (_, "true") => is_reverse = true,
            (_, "false") => is_reverse = false,
            (_, other) => return Err(bad(format!("reverse={other}: use true or false"))),
        }
    }
    if ids.len() > IDS_MAX {
        return Err(bad(format!("{} identifiers: ask for {IDS_MAX} at most", ids.len())));
    }
    // The original takes a set.
    ids.sort_unstable();
    ids.dedup();
    let end = |id| if is_reverse { End::Destination(id) } else { End::Source(id) };
    match ids.is_empty() {
        true if is_reverse => Err(bad("reverse: name the identifiers of destinations")),
        true => Ok(vec![Listing::Relation(relation, None)]),
        false => Ok(ids.into_iter().map(|id| Listing::Relation(relation, Some(end(id)))).collect()),
    }
}

/// The only argument must be `name`, and its value one of `choices`.
fn one_of<T: Copy>(
    name: &str,
    args: &[(String, String)],
    choices: &[T],
    text: fn(T) -> &'static str,
) -> Result<T, ConsoleError> {
    no_others(args, &[name])?;
    let value = args.first().map_or("", |(_, value)| value);
    choices.iter().copied().find(|choice| text(*choice) == value).ok_or_else(|| {
        let known: Vec<_> = choices.iter().map(|choice| text(*choice)).collect();
        bad(format!("{name}={value}: use one of {}", known.join(", ")))
    })
}

/// Refuses arguments that are not among `known`, or repeated.
fn no_others(args: &[(String, String)], known: &[&str]) -> Result<(), ConsoleError> {
    if let Some((name, _)) = args.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(bad(format!("unknown argument `{name}`")));
    }
    if args.len() > known.len() { Err(bad(format!("give one {}", known.join(" and one ")))) } else { Ok(()) }
}

fn bad(text: impl ToString) -> ConsoleError {
    ConsoleError::BadArguments(sanitize(text.to_string()))
}

#[cfg(test)]
mod tests;
