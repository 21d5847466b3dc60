//! Clients of MongoDB and Faktory.

pub mod faktory;
pub mod mongodb;

pub use self::mongodb::MongoStore;
