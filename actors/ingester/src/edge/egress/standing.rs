//! How many workers may be connected, and which connection is asked to end for another one.

use orchestrator_edge::{ConnectionSlot, raise_descriptor_limit};

/// More connections than this are never held, whatever the limit on open files.
const CONNECTIONS_MAX: u64 = 8_192;

/// How many connections the limit on open files, raised as far as it goes, sensibly allows: half of it, since sources, spilled messages and
/// the other subsystems open files, too.
pub(super) fn connection_limit() -> usize {
    let descriptors = raise_descriptor_limit();
    usize::try_from((descriptors / 2).clamp(1, CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

/// How far a connection has shown what it is.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Standing {
    /// It has not finished the handshake.
    Stranger,
    /// It has, but has not pinged.
    Guest,
    /// It pings as workers do.
    Worker,
}

const STRANGER: u8 = Standing::Stranger as u8;
const GUEST: u8 = Standing::Guest as u8;

impl Standing {
    /// Notes a sign of life of a connection, which has shown as much as this.
    pub(super) fn note(self, slot: &ConnectionSlot) {
        slot.set_priority(slot.priority().max(self as u8));
    }
}

/// The connection of `count` that matters least.
///
/// Strangers go first, then guests, those that were heard of longest ago before the others. But an eighth of the slots is left to each
/// kind as long as the other has more: who has just come needs a moment to show what it is. Workers go last, by their last ping.
pub(super) fn least<'a>(
    count: usize,
    slots: &mut dyn Iterator<Item = &'a ConnectionSlot>,
) -> Option<&'a ConnectionSlot> {
    let share = count / 8;
    let [mut strangers, mut guests, mut workers] = [Kind::default(); 3];
    for slot in slots {
        match slot.priority() {
            STRANGER => strangers.add(slot),
            GUEST => guests.add(slot),
            _ => workers.add(slot),
        }
    }
    let newcomers = strangers.with(guests);
    [(strangers, share), (guests, share), (newcomers, 1), (newcomers.with(workers), 0)]
        .into_iter()
        .find_map(|(kind, spared)| kind.oldest.filter(|_| kind.count > spared))
}

/// Connections of one standing: how many, and which was heard of longest ago.
#[derive(Debug, Clone, Copy, Default)]
struct Kind<'a> {
    count: usize,
    oldest: Option<&'a ConnectionSlot>,
}

impl<'a> Kind<'a> {
    fn add(&mut self, slot: &'a ConnectionSlot) {
        *self = self.with(Kind { count: 1, oldest: Some(slot) });
    }

    fn with(self, other: Self) -> Self {
        let both = self.oldest.into_iter().chain(other.oldest);
        Self { count: self.count + other.count, oldest: both.min_by_key(|slot| slot.last_changed()) }
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_edge::ConnectionSlots;
    use orchestrator_supervise::{MetricKind, testing};

    use super::*;

    #[test]
    fn strangers_go_first_and_the_oldest_of_them_but_newcomers_have_a_moment() {
        let vitals = testing::vitals("test/egress");
        let metric = |name| vitals.register(name, "", MetricKind::Counter, "Test metric.");
        let mut slots = ConnectionSlots::<(), ()>::new(24, least, metric("connected"), metric("evicted"));
        let mut all = Vec::new();
        for _ in 0..24 {
            slots.serve((), |_, slot| {
                all.push(slot);
                std::future::pending()
            });
        }
        // 0 to 7 are workers, of which 0 was heard of last; 8 to 15 are guests; the rest are strangers. A share is 3.
        all[1..8].iter().for_each(|slot| Standing::Worker.note(slot));
        all[8..16].iter().for_each(|slot| Standing::Guest.note(slot));
        Standing::Worker.note(&all[0]);
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..24).collect();
        while slots.evict() {
            let place = left.iter().position(|&at| all[at].is_closing()).expect("one was asked");
            order.push(left.remove(place));
        }
        let newcomers = [16, 17, 18, 19, 20, 8, 9, 10, 11, 12, 21, 22, 23, 13, 14];
        assert_eq!(order[..15], newcomers);
        assert_eq!(order[15..], [1, 2, 3, 4, 5, 6, 7, 15, 0], "the last guest counts like a worker");
    }
}
