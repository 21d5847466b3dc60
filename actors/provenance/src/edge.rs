//! Everything that talks to the outside.

pub mod amqp;
pub mod postgres;
pub mod sqlite;
