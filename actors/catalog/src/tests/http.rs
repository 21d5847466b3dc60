//! The HTTP edge against the stand-in `tests/peers/ermrest_server.py`, and against scripted
//! servers.

mod answers;
mod concurrency;
pub(crate) mod fixture;
mod lost_answers;
mod requests;
mod scripted;
mod secured;
mod unavailable;
