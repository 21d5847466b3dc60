//! Clients of MongoDB and Faktory, and deliveries to a program or a webhook.

pub(crate) mod faktory;
pub(crate) mod mongodb;
pub(crate) mod on_complete;

pub(crate) use self::mongodb::MongoStore;
