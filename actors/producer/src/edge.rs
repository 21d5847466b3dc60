//! Everything that talks to the outside.

pub mod faktory;
pub mod mongodb;

pub use self::mongodb::MongoStore;
