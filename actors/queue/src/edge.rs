//! What talks to the outside: files, inotify, the worker socket, SQLite. Nothing outside this folder names them.

pub mod sqlite;
pub mod error;
pub mod worker_socket;
pub(crate) mod housekeeper;
pub(crate) mod store_thread;
