//! Which event a numbered frame belongs to (`on_gap = "align"`). Pure. Frames are numbered from 0 in each series; the message that
//! starts a series has an event of its own before them.

use crate::item::{Item, Parts};

/// One stream's items against its events, over one mapping.
#[derive(Debug, Default)]
pub struct Alignment {
    /// Number that the next event's frame should have; None outside of a series.
    next: Option<u64>,
    kept: Option<Item>,
}

/// What becomes of an item at the event that is to be sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// It is this event's.
    Here(Item),
    /// This event's frame was lost: its workers get an item without parts. The one that was placed is kept for its own event.
    Hole(Item),
    /// Its event was sent before.
    Late,
}

impl Alignment {
    /// An item whose event had not come yet.
    pub fn kept(&mut self) -> Option<Item> {
        self.kept.take()
    }

    /// Places `item` at the next event.
    pub fn place(&mut self, item: Item) -> Place {
        let Some(number) = item.number else {
            // A start, an end, or a protocol without numbers.
            self.next = Some(0);
            return Place::Here(item);
        };
        let expected = self.next.unwrap_or(number);
        if number < expected {
            return Place::Late;
        }
        self.next = Some(expected + 1);
        if number == expected {
            return Place::Here(item);
        }
        let hole = Item { typ: item.typ.clone(), frames: Parts::new(), number: Some(expected) };
        self.kept = Some(item);
        Place::Hole(hole)
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
        /// Whatever is lost, doubled or late on the way: a frame is at its own event or nowhere.
        #[test]
        fn a_frame_is_at_its_own_event_or_nowhere(numbers in prop::collection::vec(0u64..30, 0..60)) {
            let mut alignment = Alignment::default();
            let mut source = std::iter::once(start()).chain(numbers.iter().map(|n| frame(*n)));
            let mut sent = Vec::new();
            'events: loop {
                loop {
                    let Some(item) = alignment.kept().or_else(|| source.next()) else { break 'events };
                    match alignment.place(item) {
                        Place::Here(item) | Place::Hole(item) => break sent.push(item),
                        Place::Late => {}
                    }
                }
            }
            for (event, item) in sent.iter().enumerate().skip(1) {
                prop_assert_eq!(item.number, Some(event as u64 - 1));
            }
            // Each first occurrence that is not behind a later frame has arrived.
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
            assert_eq!(alignment.place(start()), Place::Here(start()));
        }
    }
}
