//! The Faktory edge against a stand-in for the server (`tests/peers/faktory_server.py`), against impostors that say whatever a test
//! wants, and with workers of other people.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

#[path = "faktory/handshake.rs"]
mod handshake;
#[path = "faktory/hostile.rs"]
mod hostile;
#[path = "faktory/house.rs"]
mod house;
#[path = "faktory/impostor.rs"]
mod impostor;
#[path = "faktory/losing.rs"]
mod losing;
#[path = "faktory/outage.rs"]
mod outage;
#[path = "faktory/pushing.rs"]
mod pushing;
#[path = "faktory/queue.rs"]
mod queue;
#[path = "faktory/workers.rs"]
mod workers;
