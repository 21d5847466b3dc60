//! The provenance subsystem: stores where contents, directories and revisions were found first.
//!
//! It takes the place of the Python server of Software Heritage's provenance storage: the same exchanges, queues and
//! messages, the same tables.

pub mod conflicts;
pub mod edge;
pub mod messages;
pub mod method;
pub mod policy;
pub mod row;
pub mod store;
pub mod wire;
