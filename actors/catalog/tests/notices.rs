//! The notices edge against a real RabbitMQ: what it declares there, what it hears, and how it comes back.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

#[path = "notices/hearing.rs"]
mod hearing;
#[path = "notices/house.rs"]
mod house;
#[path = "notices/losing.rs"]
mod losing;
