//! The AMQP edge on a real broker: what it declares, what it promises about order, what it does when the broker goes.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

#[path = "amqp/calling.rs"]
mod calling;
#[path = "amqp/consuming.rs"]
mod consuming;
#[path = "amqp/fuzzing.rs"]
mod fuzzing;
#[path = "amqp/house.rs"]
mod house;
#[path = "amqp/losing.rs"]
mod losing;
