//! Tests of the endpoint on a real tree, with raw HTTP over TCP and a unix socket.

#![expect(clippy::unwrap_used, reason = "this whole crate is a test")]

mod access;
mod ascii_view;
mod commands;
mod consoles;
mod crashes;
mod events;
mod exports;
mod exposition_check;
mod health;
mod history;
mod hostile;
mod metrics;
mod openapi;
mod page;
mod reader;
mod site;
mod sockets;
mod tree_routes;
mod waits;
mod why;
