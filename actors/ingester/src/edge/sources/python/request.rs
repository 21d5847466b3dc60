//! Requests to the process.

use std::{os::fd::OwnedFd, sync::Arc};

/// Request to the process.
#[derive(Debug)]
pub(super) enum Request {
    /// Run a stream.
    Run {
        stream: Arc<str>,
        /// Number of the mapping.
        mapping: u64,
        /// The process's end of the stream's socket.
        socket: OwnedFd,
    },
    /// All events of this mapping were ingested.
    Finished(u64),
}
