//! Clients of MongoDB and Faktory, and deliveries to a program or a webhook.

pub mod faktory;
pub mod mongodb;
pub mod on_complete;

pub use self::mongodb::MongoStore;
