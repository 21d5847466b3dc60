//! Delivery tags of one channel, and which of them one `basic.ack` may acknowledge. Pure.
//!
//! A broker numbers the deliveries of a channel from 1 without gaps, over all consumers.
//! `basic.ack` with `multiple` acknowledges every tag up to the named one, also unread deliveries.
//! So it is used only if every lower tag is settled (CONTRACT PO09). The named tag must be open, or
//! the broker closes the channel.

use std::collections::BTreeSet;

/// Settled tags of one channel. A new channel starts at 1 again.
#[derive(Debug, Default)]
pub(super) struct DeliveryTags {
    /// Highest tag up to which every tag is settled.
    floor: u64,
    /// Settled tags above `floor`.
    done: BTreeSet<u64>,
}

/// One `basic.ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    pub(super) multiple: bool,
}

impl DeliveryTags {
    /// Records that `tag` is rejected with `basic.nack` before the next acknowledgement.
    pub(super) fn reject(&mut self, tag: u64) {
        self.done.insert(tag);
        self.raise_floor();
    }

    /// Records that the open `tags` are settled, and returns the acknowledgements of exactly these.
    pub(super) fn settle(&mut self, tags: &[u64]) -> Vec<Ack> {
        self.done.extend(tags);
        self.raise_floor();
        let below = tags.iter().copied().filter(|&tag| tag <= self.floor);
        let (count, highest) = below.fold((0, 0), |(count, highest), tag| (count + 1, tag.max(highest)));
        let mut acks = Vec::new();
        if count > 0 {
            acks.push(Ack { tag: highest, multiple: count > 1 });
        }
        let above = tags.iter().copied().filter(|&tag| tag > self.floor);
        acks.extend(above.map(|tag| Ack { tag, multiple: false }));
        acks
    }

    fn raise_floor(&mut self) {
        while self.done.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn consecutive_tags_are_acknowledged_together_up_to_a_gap() {
        let mut tags = DeliveryTags::default();
        assert_eq!(tags.settle(&[2, 1]), [Ack { tag: 2, multiple: true }]);
        assert_eq!(tags.settle(&[4, 5]), [Ack { tag: 4, multiple: false }, Ack { tag: 5, multiple: false }]);
        // Tag 5 is closed, so 3 is the highest tag that may be named.
        assert_eq!(tags.settle(&[3]), [Ack { tag: 3, multiple: false }]);
        tags.reject(6);
        assert_eq!(tags.settle(&[8, 7]), [Ack { tag: 8, multiple: true }]);
    }

    proptest! {
        /// Model: a broker with 60 open tags. Exactly the settled tags close, and no
        /// acknowledgement names a closed tag.
        #[test]
        fn exactly_the_settled_tags_are_acknowledged(
            order in Just((1..=60_u64).collect::<Vec<_>>()).prop_shuffle(),
            batches in prop::collection::vec((1_usize..8, prop::bool::weighted(0.2)), 60),
        ) {
            let mut tags = DeliveryTags::default();
            let mut open: BTreeSet<u64> = (1..=60).collect();
            let mut wanted = open.clone();
            let mut rest = order.as_slice();
            for (size, nack) in batches {
                let (batch, later) = rest.split_at(size.min(rest.len()));
                rest = later;
                for tag in batch {
                    wanted.remove(tag);
                }
                if nack {
                    for &tag in batch {
                        prop_assert!(open.remove(&tag));
                        tags.reject(tag);
                    }
                } else {
                    for ack in tags.settle(batch) {
                        prop_assert!(open.contains(&ack.tag), "{ack:?} names a closed tag");
                        open.retain(|&tag| if ack.multiple { tag > ack.tag } else { tag != ack.tag });
                    }
                }
                prop_assert_eq!(&open, &wanted);
            }
        }
    }
}
