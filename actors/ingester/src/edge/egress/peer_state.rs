//! State of one worker's queue, for operators.

use std::{sync::Arc, time::Duration};

use super::progress::Progress;

/// State of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerState {
    /// Name of the worker.
    pub worker: Arc<str>,
    /// True while it has a connection.
    pub connected: bool,
    /// Memory of its queued messages, bytes, including those waiting for the disk.
    pub queued_bytes: usize,
    /// Queued messages, in memory and on disk.
    pub queued_messages: usize,
    /// Bytes on disk.
    pub spilled_bytes: u64,
    /// Messages sent since the worker was first known.
    pub events_out: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Waiting time of the oldest message in memory.
    pub oldest_age: Option<Duration>,
    /// Time since its connection took the last byte, or since it connected; None without a connection.
    pub taken_age: Option<Duration>,
    /// Time since its connection took the last byte of a message; None without one in this mapping.
    pub given_age: Option<Duration>,
    /// Time since the last ping on its connection.
    pub ping_age: Option<Duration>,
    /// Its events of this mapping.
    pub progress: Progress,
}

#[cfg(test)]
impl PeerState {
    /// A connected worker that got events and has nothing left to take.
    pub(crate) fn example(worker: &str) -> Self {
        Self {
            worker: worker.into(),
            connected: true,
            queued_bytes: 0,
            queued_messages: 0,
            spilled_bytes: 0,
            events_out: 7,
            bytes_out: 700,
            oldest_age: None,
            taken_age: None,
            given_age: None,
            ping_age: None,
            progress: Progress::default(),
        }
    }
}
