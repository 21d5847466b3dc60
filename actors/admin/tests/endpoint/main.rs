//! The endpoint on a real tree, over real TCP and a real unix socket, spoken to in raw HTTP.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod access;
mod ascii_view;
mod commands;
mod consoles;
mod events;
mod exposition_check;
mod health;
mod history;
mod hostile;
mod metrics;
mod page;
mod reader;
mod site;
mod sockets;
mod tree_routes;
mod why;
