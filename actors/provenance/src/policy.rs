//! Routing policy: the queue of each row (CONTRACT PP01, PP05 to PP07). Pure.
//!
//! The key of a row has one of 16 ranges, and its method belongs to one exchange. A worker serves
//! one exchange and one range, with a queue for each method of the exchange. Servers never derive a
//! range from a row, since clients may differ in [`Routing`]; the queue's name decides.

mod range;
mod routing;
mod worker;

pub(crate) use range::{Range, RangeSet};
pub use routing::Routing;
#[cfg(any(test, feature = "postgres"))]
pub use routing::split;
pub(crate) use routing::{ranges, split_by_ranges};
pub(crate) use worker::Worker;

use crate::method::{Exchange, Method, Relation};

/// First word of the name of the method, or of its relation.
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

#[must_use]
pub(crate) fn methods(exchange: Exchange) -> &'static [Method] {
    let all: &'static [Method] = &Method::ALL;
    match exchange {
        Exchange::Content => &all[0..3],
        Exchange::Directory => &all[3..5],
        Exchange::Revision => &all[5..8],
        Exchange::Origin => &all[8..9],
        Exchange::Location => &all[9..10],
    }
}

/// Name of a queue, which is also the routing key of its messages.
#[must_use]
pub fn binding_key(method: Method, range: Range) -> String {
    format!("{method}.{range}")
}

#[cfg(test)]
mod tests;
