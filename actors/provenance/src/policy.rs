//! The splitting policy: which queue a row goes through (CONTRACT PP01, PP05 to PP07). Pure.
//!
//! A row has one of sixteen ranges, by its key; a method belongs to one exchange; an exchange and a range make a worker,
//! which has one queue for each of the exchange's methods. A server never derives a range from a row: clients disagree on
//! the [`Routing`], so the queue's name alone says what its worker owns.

mod range;
mod routing;
mod worker;

pub use range::{NotARange, Range, RangeSet, RangeSetError};
pub use routing::{Routing, split};
pub(crate) use routing::{deal, ranges};
pub use worker::{Ranges, Worker};

use crate::method::{Exchange, Method, Relation};

/// The exchange that a method's messages go through: the first word of its name, or of its relation.
#[must_use]
pub fn exchange(method: Method) -> Exchange {
    match method {
        Method::ContentAdd
        | Method::RelationAdd(Relation::ContentInRevision | Relation::ContentInDirectory) => {
            Exchange::Content
        }
        Method::DirectoryAdd | Method::RelationAdd(Relation::DirectoryInRevision) => Exchange::Directory,
        Method::RevisionAdd
        | Method::RelationAdd(Relation::RevisionInOrigin | Relation::RevisionBeforeRevision) => {
            Exchange::Revision
        }
        Method::OriginAdd => Exchange::Origin,
        Method::LocationAdd => Exchange::Location,
    }
}

/// The methods whose messages go through an exchange.
#[must_use]
pub fn methods(exchange: Exchange) -> &'static [Method] {
    let all: &'static [Method] = &Method::ALL;
    match exchange {
        Exchange::Content => &all[0..3],
        Exchange::Directory => &all[3..5],
        Exchange::Revision => &all[5..8],
        Exchange::Origin => &all[8..9],
        Exchange::Location => &all[9..10],
    }
}

/// All exchanges, in the order of the pool.
#[must_use]
pub fn exchanges() -> &'static [Exchange] {
    &Exchange::ALL
}

/// The name of a queue, which is also the routing key of its messages.
#[must_use]
pub fn binding_key(method: Method, range: Range) -> String {
    format!("{method}.{range}")
}

/// The names of a worker's queues.
pub fn binding_keys(exchange: Exchange, range: Range) -> impl Iterator<Item = String> {
    methods(exchange).iter().map(move |&method| binding_key(method, range))
}

/// A routing key that no queue of ours has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no binding key: write METHOD.RELATION.RANGE, for example content_add.unknown.a")]
pub struct NotABindingKey(String);

/// What a message with this routing key asks for, and of which range.
///
/// # Errors
/// [`NotABindingKey`]: it is not exactly one of the 160 names that [`binding_key`] gives.
pub fn parse_binding_key(key: &str) -> Result<(Method, Range), NotABindingKey> {
    let parse = || {
        let (prefix, range) = key.rsplit_once('.')?;
        let (name, relation) = prefix.split_once('.')?;
        let known = |method: &Method| {
            method.name() == name && method.relation().map_or("unknown", Relation::value) == relation
        };
        Some((Method::ALL.into_iter().find(known)?, range.parse().ok()?))
    };
    parse().ok_or_else(|| NotABindingKey(key.to_owned()))
}

/// Does a method of the storage's interface write? Those that do go through the broker, the others straight to a store.
#[must_use]
pub fn is_write(name: &str) -> bool {
    name.contains("_add")
}

#[cfg(test)]
mod tests;
