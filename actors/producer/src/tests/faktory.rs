//! Faktory client against a stand-in for the server (`tests/peers/faktory_server.py`) and against scripted
//! servers.

mod fixture;
mod handshake;
mod lost_connections;
mod outage;
mod pushing;
mod scripted_server;
