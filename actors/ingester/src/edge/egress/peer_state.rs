//! The state of one worker's queue, as operators see it.

use std::{sync::Arc, time::Duration};

/// What is known of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerState {
    /// Its name.
    pub worker: Arc<str>,
    /// Whether it has a connection.
    pub connected: bool,
    /// Memory that its messages take, bytes, with what goes to disk.
    pub queued_bytes: usize,
    /// Messages that wait, those on disk included.
    pub queued_messages: usize,
    /// On disk, bytes.
    pub spilled_bytes: u64,
    /// Messages that went out, in all mappings since it was first known.
    pub events_out: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// How long the oldest message that is in memory has waited.
    pub oldest_age: Option<Duration>,
}
