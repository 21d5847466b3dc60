//! Limit of worker connections, and the choice of the connection to close for a new one.

use orchestrator_edge::{ConnectionSlot, raise_descriptor_limit};

/// Most connections, whatever the limit on open files.
const CONNECTIONS_MAX: u64 = 8_192;

/// Connections that the limit on open files allows, after raising it. The other half is left to
/// sources, spill files and other subsystems.
pub(super) fn connection_limit() -> usize {
    let descriptors = raise_descriptor_limit();
    usize::try_from((descriptors / 2).clamp(1, CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

/// Priority of a connection; the lowest is closed first.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Priority {
    /// The handshake is not complete.
    HandshakePending,
    /// The handshake is complete, but no ping has arrived.
    Identified,
    /// The peer sends pings as workers do.
    Worker,
}

const HANDSHAKE_PENDING: u8 = Priority::HandshakePending as u8;
const IDENTIFIED: u8 = Priority::Identified as u8;

impl Priority {
    /// Raises the priority of a connection and records its activity.
    pub(super) fn raise(self, slot: &ConnectionSlot) {
        slot.set_priority(slot.priority().max(self as u8));
    }
}

/// Connection of `count` to close for a new one.
///
/// Connections with an incomplete handshake go first, then those without a ping, then workers;
/// within a group the least recently active goes first. Each of the first two groups keeps an
/// eighth of the slots while the other one is larger, so that new connections have time to
/// identify themselves.
pub(super) fn eviction_candidate<'a>(
    count: usize,
    slots: &mut dyn Iterator<Item = &'a ConnectionSlot>,
) -> Option<&'a ConnectionSlot> {
    let share = count / 8;
    let [mut pending, mut identified, mut workers] = [Group::default(); 3];
    for slot in slots {
        match slot.priority() {
            HANDSHAKE_PENDING => pending.add(slot),
            IDENTIFIED => identified.add(slot),
            _ => workers.add(slot),
        }
    }
    let non_workers = pending.with(identified);
    [(pending, share), (identified, share), (non_workers, 1), (non_workers.with(workers), 0)]
        .into_iter()
        .find_map(|(group, spared)| group.oldest.filter(|_| group.count > spared))
}

/// Connections of one priority: their number and the least recently active one.
#[derive(Debug, Clone, Copy, Default)]
struct Group<'a> {
    count: usize,
    oldest: Option<&'a ConnectionSlot>,
}

impl<'a> Group<'a> {
    fn add(&mut self, slot: &'a ConnectionSlot) {
        *self = self.with(Group { count: 1, oldest: Some(slot) });
    }

    fn with(self, other: Self) -> Self {
        let both = self.oldest.into_iter().chain(other.oldest);
        Self { count: self.count + other.count, oldest: both.min_by_key(|slot| slot.last_changed()) }
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_edge::ConnectionSlots;
    use orchestrator_observe::MetricKind;
    use orchestrator_supervise::testing;

    use super::*;

    #[test]
    fn connections_without_handshake_or_ping_are_evicted_first() {
        let vitals = testing::vitals("test/egress");
        let metric = |name| vitals.register(name, "", MetricKind::Counter, "Test metric.");
        let mut slots =
            ConnectionSlots::<(), ()>::new(24, eviction_candidate, metric("connected"), metric("evicted"));
        let mut all = Vec::new();
        for _ in 0..24 {
            slots.serve((), |_, slot| {
                all.push(slot);
                std::future::pending()
            });
        }
        // 0 to 7 are workers, 0 the most recently active; 8 to 15 have no ping; the others have no
        // handshake. A share is 3.
        all[1..8].iter().for_each(|slot| Priority::Worker.raise(slot));
        all[8..16].iter().for_each(|slot| Priority::Identified.raise(slot));
        Priority::Worker.raise(&all[0]);
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..24).collect();
        while slots.evict() {
            let index = left.iter().position(|&at| all[at].is_closing()).expect("one was asked");
            order.push(left.remove(index));
        }
        let non_workers = [16, 17, 18, 19, 20, 8, 9, 10, 11, 12, 21, 22, 23, 13, 14];
        assert_eq!(order[..15], non_workers);
        assert_eq!(
            order[15..],
            [1, 2, 3, 4, 5, 6, 7, 15, 0],
            "the last one without a ping is treated like a worker"
        );
    }
}
