//! Matching of numbered frames with events (`on_gap = "align"`). Pure. Frames are numbered from 0
//! in each series, and the message that starts a series has its own event before them.

use crate::item::{Item, Parts};

/// Alignment of one stream over one mapping.
#[derive(Debug, Default)]
pub(crate) struct Alignment {
    /// Expected number of the next event's frame; None outside a series.
    next: Option<u64>,
    take_kept: Option<Item>,
}

/// Outcome of aligning an item with the next event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AlignedItem {
    /// The item belongs to this event.
    Matched(Item),
    /// This event's frame was lost. Its workers get this item without parts; the aligned item is
    /// kept for its own event.
    Missing(Item),
    /// The item's event was already sent.
    Late,
}

impl Alignment {
    /// Takes the item that was kept for a later event.
    pub(crate) fn take_kept(&mut self) -> Option<Item> {
        self.take_kept.take()
    }

    /// Aligns `item` with the next event.
    pub(crate) fn align(&mut self, item: Item) -> AlignedItem {
        let Some(number) = item.number else {
            // A start, an end, or a protocol without numbers.
            self.next = Some(0);
            return AlignedItem::Matched(item);
        };
        let expected = self.next.unwrap_or(number);
        if number < expected {
            return AlignedItem::Late;
        }
        self.next = Some(expected + 1);
        if number == expected {
            return AlignedItem::Matched(item);
        }
        let missing = Item { typ: item.typ.clone(), frames: Parts::new(), number: Some(expected) };
        self.take_kept = Some(item);
        AlignedItem::Missing(missing)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(number: u64) -> Item {
        Item { typ: "STINS".into(), frames: [vec![7].into()].into_iter().collect(), number: Some(number) }
    }

    fn start() -> Item {
        Item { number: None, ..frame(0) }
    }

    proptest! {
        /// Holds for any lost, repeated or late frames.
        #[test]
        fn a_frame_is_at_its_own_event_or_nowhere(numbers in prop::collection::vec(0u64..30, 0..60)) {
            let mut alignment = Alignment::default();
            let mut source = std::iter::once(start()).chain(numbers.iter().map(|n| frame(*n)));
            let mut sent = Vec::new();
            'events: loop {
                loop {
                    let Some(item) = alignment.take_kept().or_else(|| source.next()) else { break 'events };
                    match alignment.align(item) {
                        AlignedItem::Matched(item) | AlignedItem::Missing(item) => break sent.push(item),
                        AlignedItem::Late => {}
                    }
                }
            }
            for (event, item) in sent.iter().enumerate().skip(1) {
                prop_assert_eq!(item.number, Some(event as u64 - 1));
            }
            // Each frame that is not behind a later one has arrived.
            let mut highest = None;
            for number in numbers {
                if highest.is_none_or(|highest| number > highest) {
                    highest = Some(number);
                    prop_assert!(!sent[number as usize + 1].frames.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_protocol_without_numbers_is_matched_by_count() {
        let mut alignment = Alignment::default();
        for _ in 0..3 {
            assert_eq!(alignment.align(start()), AlignedItem::Matched(start()));
        }
    }
}
