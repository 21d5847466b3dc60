//! Which delivery tags of one channel may be acknowledged together. Pure.
//!
//! A broker numbers what it delivers on a channel from 1 without gaps, over all its consumers. `basic.ack` with `multiple`
//! acknowledges every tag up to the one named, those included that still wait unread in the client; so it may only be used
//! where each lower tag is done. And it must name a tag that is still open, or the broker closes the channel.

use std::collections::BTreeSet;

/// The tags of one channel. A new channel needs a new one.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Every tag up to this one is done.
    floor: u64,
    /// Tags above the floor that are done.
    done: BTreeSet<u64>,
}

/// One `basic.ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) tag: u64,
    pub(super) multiple: bool,
}

impl Ledger {
    /// The broker was told to take `tag` back, or will have been before the next acknowledgement.
    pub(super) fn give_back(&mut self, tag: u64) {
        self.done.insert(tag);
        self.raise();
    }

    /// Notes that `tags`, which are open, are done, and gives what acknowledges these and no others.
    pub(super) fn settle(&mut self, tags: &[u64]) -> Vec<Ack> {
        self.done.extend(tags);
        self.raise();
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

    fn raise(&mut self) {
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
    fn tags_that_follow_each_other_are_acknowledged_at_once_but_never_beyond_a_gap() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.settle(&[2, 1]), [Ack { tag: 2, multiple: true }]);
        assert_eq!(
            ledger.settle(&[4, 5]),
            [Ack { tag: 4, multiple: false }, Ack { tag: 5, multiple: false }]
        );
        // 5 is not open any more: 3 is the highest that may be named.
        assert_eq!(ledger.settle(&[3]), [Ack { tag: 3, multiple: false }]);
        ledger.give_back(6);
        assert_eq!(ledger.settle(&[8, 7]), [Ack { tag: 8, multiple: true }]);
    }

    proptest! {
        /// Beside a broker that has delivered everything: exactly what is settled leaves it, and no acknowledgement names a
        /// tag that is not open.
        #[test]
        fn exactly_what_is_settled_is_acknowledged(
            order in Just((1..=60_u64).collect::<Vec<_>>()).prop_shuffle(),
            batches in prop::collection::vec((1_usize..8, prop::bool::weighted(0.2)), 60),
        ) {
            let mut ledger = Ledger::default();
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
                        ledger.give_back(tag);
                    }
                } else {
                    for ack in ledger.settle(batch) {
                        prop_assert!(open.contains(&ack.tag), "{ack:?} names a closed tag");
                        open.retain(|&tag| if ack.multiple { tag > ack.tag } else { tag != ack.tag });
                    }
                }
                prop_assert_eq!(&open, &wanted);
            }
        }
    }
}
