//! A store in an SQLite file: the embedded default, which needs no server.
//!
//! The layout is our own: entities have integer ids, relations join them, dates are microseconds since 1970. One process
//! owns the file and writes through one [`SqliteStore`]; any number of [`SqliteReader`]s beside it, in that process or in
//! others, see what is committed.

mod error;
mod lock;
mod open;
mod read;
mod replaced;
mod schema;
mod store;
mod write;

pub(super) use error::{explain, unobserved};
pub use open::{Options, Synchronous};
pub use store::{SqliteReader, SqliteStore};
