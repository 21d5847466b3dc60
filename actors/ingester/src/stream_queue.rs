//! A stream of this ingester, and its items between source and Work.

use std::sync::Arc;

use crate::backlog::Backlog;

/// Bytes of one stream that may wait for their events, where its source can be slowed. More would only be out of the processor's
/// cache when its turn comes: with 16 MiB an event of 1 KiB cost a quarter more.
const BACKLOG_BYTES: usize = 1 << 20;
/// The same where what there is no room for is lost.
const BACKLOG_BYTES_MISSING: usize = 16 << 20;

/// All streams of an ingester, in the order of its configuration, which is the order of a message's frames.
pub type StreamQueues = Arc<[StreamQueue]>;

/// A stream, in the hands of its child and of Work.
#[derive(Debug)]
pub struct StreamQueue {
    /// Its name.
    pub name: Arc<str>,
    /// Its items that wait for their events.
    pub backlog: Backlog,
    /// Its source misses what is sent while it is not connected.
    pub misses: bool,
}

impl StreamQueue {
    /// Without items.
    pub fn new(name: &str, misses: bool) -> Self {
        let bytes_max = if misses { BACKLOG_BYTES_MISSING } else { BACKLOG_BYTES };
        Self { name: name.into(), backlog: Backlog::new(bytes_max), misses }
    }
}
