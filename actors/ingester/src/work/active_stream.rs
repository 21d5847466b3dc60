//! An active stream of a mapping, seen from Work: its items in the order of events.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use super::context::{WorkContext, WorkMetrics};
use crate::{
    alignment::{AlignedItem, Alignment},
    config::OnGap,
    item::Item,
};

/// Items taken from the backlog at once.
const ITEMS: usize = 256;
/// Bytes after which no further item is taken.
const BYTES: usize = 512 << 10;

/// An active stream.
pub(super) struct ActiveStream {
    pub(super) name: Arc<str>,
    /// Position among all streams.
    pub(super) position: usize,
    /// Numbers of items are those of their events.
    pub(super) numbers_events: bool,
    alignment: Alignment,
    /// Items taken from the backlog and not yet used, with the times of their receipt.
    taken: VecDeque<(Item, Instant)>,
    /// Receipt of the last item used.
    pub(super) received: Instant,
}

impl ActiveStream {
    /// Creates the stream at `position` without items.
    pub(super) fn new(context: &WorkContext, position: usize) -> Self {
        let stream = &context.streams[position];
        Self {
            name: stream.name.clone(),
            position,
            numbers_events: stream.numbers_events,
            alignment: Alignment::default(),
            taken: VecDeque::new(),
            received: Instant::now(),
        }
    }

    pub(super) fn drop_next(&mut self) {
        self.taken.pop_front();
    }

    /// The item for the next event, if it has arrived.
    pub(super) fn item(&mut self, context: &WorkContext, counts: &WorkMetrics) -> Option<Item> {
        loop {
            let item = match self.alignment.take_kept() {
                Some(take_kept) => take_kept,
                None => self.next(context)?,
            };
            if context.on_gap == OnGap::Count {
                return Some(item);
            }
            match self.alignment.align(item) {
                AlignedItem::Matched(item) => return Some(item),
                AlignedItem::Missing(item) => {
                    counts.without_frame.add(1);
                    return Some(item);
                }
                AlignedItem::Late => counts.late.add(1),
            }
        }
    }

    /// Number of the next item, which stays; 0 without one.
    pub(super) fn next_number(&mut self, context: &WorkContext) -> Option<u64> {
        self.fill(context);
        self.taken.front().map(|(item, _)| item.number.unwrap_or_default())
    }

    fn fill(&mut self, context: &WorkContext) {
        if self.taken.is_empty() {
            context.streams[self.position].backlog.take(&mut self.taken, ITEMS, BYTES);
        }
    }

    fn next(&mut self, context: &WorkContext) -> Option<Item> {
        self.fill(context);
        let (item, received) = self.taken.pop_front()?;
        self.received = received;
        Some(item)
    }
}
