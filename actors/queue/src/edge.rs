//! Input and output: files, inotify, the worker socket, and the threads that use the store. No module
//! outside this folder uses them.

pub(crate) mod error;
mod expected_runs;
pub(crate) mod files;
mod gauges;
pub(crate) mod housekeeper;
pub(crate) mod inotify;
pub(crate) mod page_file;
pub(crate) mod queue_store;
pub(crate) mod worker_socket;
