//! The notices edge against a real RabbitMQ.

mod delivery;
mod fixture;
mod reconnect;
