//! The notices edge against a real RabbitMQ: what it declares there, what it hears, and how it comes back.

mod fixture;
mod hearing;
mod losing;
