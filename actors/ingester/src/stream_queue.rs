//! A configured stream, and its items between source and Work.

use std::sync::Arc;

use crate::{backlog::Backlog, source::Source};

/// Backlog of a stream with backpressure, bytes. A larger one exceeds the processor's cache: with
/// 16 MiB an event of 1 KiB took a quarter more time.
const BACKLOG_BYTES: usize = 1 << 20;
/// Backlog of a stream without backpressure, bytes.
const LOSSY_BACKLOG_BYTES: usize = 16 << 20;

/// Streams of an ingester in configured order, which is the order of a message's frames.
pub(crate) type StreamQueues = Arc<[StreamQueue]>;

/// A stream, shared by its child and Work.
#[derive(Debug)]
pub(crate) struct StreamQueue {
    /// Name of the stream.
    pub name: Arc<str>,
    /// Items that wait for their events.
    pub backlog: Backlog,
    /// The source loses messages sent while it is not connected.
    pub lossy: bool,
    /// Numbers of items are those of their events.
    pub numbers_events: bool,
}

impl StreamQueue {
    /// Creates a stream without items for `source`.
    pub(crate) fn new(name: &str, source: &dyn Source) -> Self {
        let lossy = !source.has_backpressure();
        let bytes_max = if lossy { LOSSY_BACKLOG_BYTES } else { BACKLOG_BYTES };
        let numbers_events = source.numbers_events();
        Self { name: name.into(), backlog: Backlog::new(bytes_max), lossy, numbers_events }
    }
}
