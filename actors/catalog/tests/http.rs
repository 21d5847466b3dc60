//! The HTTP edge against a stand-in for the server (`tests/peers/ermrest_server.py`), and against one that says whatever a test wants.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

#[path = "http/answers.rs"]
mod answers;
#[path = "http/away.rs"]
mod away;
#[path = "http/house.rs"]
mod house;
#[path = "http/lanes.rs"]
mod lanes;
#[path = "http/losing.rs"]
mod losing;
#[path = "http/requests.rs"]
mod requests;
#[path = "http/scripted.rs"]
mod scripted;
#[path = "http/secured.rs"]
mod secured;
