//! The HTTP edge against a stand-in for the server (`tests/peers/ermrest_server.py`), and against one that says whatever a test wants.

mod answers;
mod away;
mod fixture;
mod lanes;
mod losing;
mod requests;
mod scripted;
mod secured;
