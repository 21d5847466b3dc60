//! Input and output: files, inotify, the worker socket, SQLite, PostgreSQL. No module outside this folder
//! uses them.

pub(crate) mod error;
mod expected_runs;
pub(crate) mod files;
mod gauges;
pub(crate) mod housekeeper;
pub(crate) mod inotify;
pub(crate) mod page_file;
pub(crate) mod pause_file;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod queue_store;
pub(crate) mod sqlite;
pub(crate) mod unix_time;
pub(crate) mod worker_socket;
