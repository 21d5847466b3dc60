//! Store in an SQLite file: the default, which needs no server.
//!
//! The layout is this program's own (CONTRACT PD04): entities have integer ids, relations refer to
//! them, dates are microseconds since 1970. One [`SqliteStore`] owns the file and writes. Any
//! number of [`SqliteReader`]s, also in other processes, see the committed rows.

mod error;
mod open;
mod pages;
mod read;
mod replaced;
mod schema;
mod store;
mod write;

pub(super) use error::{explain, identity_error};
#[cfg(test)]
pub(crate) use open::{Options, Synchronous};
pub(crate) use store::{SqliteReader, SqliteStore};
