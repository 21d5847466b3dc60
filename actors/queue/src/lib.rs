//! The queue subsystem: hands out the lines of fetcher files as jobs, one at a time, over a unix socket.

pub mod config;
pub mod edge;
mod figures;
pub mod file_name;
mod group_commit;
pub mod jitter;
pub mod lines;
pub mod messages;
pub mod protocol;
mod queue_store;
pub mod storage;
pub mod tracking;
