//! Routing policy: the queue of each row (CONTRACT PP01, PP05 to PP07). Pure.
//!
//! The key of a row has one of 16 ranges, and its method belongs to one exchange. A worker serves
//! one exchange and one range, with a queue for each method of the exchange. Servers never derive a
//! range from a row, since clients may differ in [`Routing`]; the queue's name decides.

mod range;
mod routing;
mod worker;

pub use range::{InvalidRange, Range, RangeSet, RangeSetError};
pub use routing::{Routing, split};
pub(crate) use routing::{ranges, split_by_ranges};
pub use worker::{Ranges, Worker};

use crate::method::{Exchange, Method, Relation};

/// Returns the exchange of a method: the first word of its name or of its relation.
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

/// Returns the methods of an exchange.
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

/// Returns all exchanges, in the order of the pool.
#[must_use]
pub fn exchanges() -> &'static [Exchange] {
    &Exchange::ALL
}

/// Returns the name of a queue, which is also the routing key of its messages.
#[must_use]
pub fn binding_key(method: Method, range: Range) -> String {
    format!("{method}.{range}")
}

/// Returns the names of a worker's queues.
pub fn binding_keys(exchange: Exchange, range: Range) -> impl Iterator<Item = String> {
    methods(exchange).iter().map(move |&method| binding_key(method, range))
}

/// Error of a routing key without a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a binding key: write METHOD.RELATION.RANGE, for example content_add.unknown.a")]
pub struct InvalidBindingKey(String);

/// Returns the method and the range of a routing key.
///
/// # Errors
/// [`InvalidBindingKey`]: not one of the 160 results of [`binding_key`].
pub fn parse_binding_key(key: &str) -> Result<(Method, Range), InvalidBindingKey> {
    let parse = || {
        let (prefix, range) = key.rsplit_once('.')?;
        let (name, relation) = prefix.split_once('.')?;
        let known = |method: &Method| {
            method.name() == name && method.relation().map_or("unknown", Relation::value) == relation
        };
        Some((Method::ALL.into_iter().find(known)?, range.parse().ok()?))
    };
    parse().ok_or_else(|| InvalidBindingKey(key.to_owned()))
}

/// Returns true for the methods of the original's interface that write. They go through the broker,
/// the others directly to a store.
#[must_use]
pub fn is_write(name: &str) -> bool {
    name.contains("_add")
}

#[cfg(test)]
mod tests;
