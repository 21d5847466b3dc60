//! The Faktory edge against a stand-in for the server (`tests/peers/faktory_server.py`), against impostors that say whatever a test
//! wants, and with workers of other people.

mod fixture;
mod handshake;
mod impostor;
mod losing;
mod outage;
mod pushing;
