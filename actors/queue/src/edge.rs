//! What talks to the outside: files, inotify, the worker socket, SQLite. Nothing outside this folder names them.

pub mod error;
pub mod files;
pub(crate) mod housekeeper;
pub mod inotify;
pub(crate) mod queue_store;
pub mod sqlite;
pub(crate) mod unix_time;
pub mod worker_socket;
