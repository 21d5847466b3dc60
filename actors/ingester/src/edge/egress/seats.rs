//! Who is connected, who may be sent away first, and how many there may be.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    },
};

use orchestrator_edge::raise_descriptor_limit;
use tokio::sync::Notify;

/// More connections than this are never held, whatever the limit on open files.
const CONNECTIONS_MAX: u64 = 8_192;

/// How many connections the limit on open files, raised as far as it goes, sensibly allows: half of it, since sources, spilled messages and the other subsystems open
/// files, too.
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

/// One connection, as the house sees it.
#[derive(Debug)]
pub(super) struct Seat {
    standing: AtomicU8,
    /// The turn of its last sign of life.
    seen: AtomicU64,
    clock: Arc<AtomicU64>,
    /// Notified when it is to end.
    pub(super) end: Arc<Notify>,
    leaving: AtomicBool,
}

impl Seat {
    pub(super) fn promote(&self, to: Standing) {
        self.standing.fetch_max(to as u8, Relaxed);
        self.seen.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: HashMap<u64, Arc<Seat>>,
    clock: Arc<AtomicU64>,
    next_id: u64,
}

impl Seats {
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    pub(super) fn take(&mut self) -> (u64, Arc<Seat>) {
        let id = self.next_id;
        self.next_id += 1;
        let seat = Arc::new(Seat {
            standing: AtomicU8::new(STRANGER),
            seen: AtomicU64::new(self.clock.fetch_add(1, Relaxed)),
            clock: self.clock.clone(),
            end: Arc::default(),
            leaving: AtomicBool::new(false),
        });
        self.taken.insert(id, seat.clone());
        (id, seat)
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.taken.remove(&id);
    }

    /// Asks the connection to end that matters least. False if all are leaving.
    ///
    /// Strangers go first, then guests, those that were heard of longest ago before the others. But an eighth of the seats is left to each
    /// kind as long as the other has more: who has just come needs a moment to show what it is. Workers go last, by their last ping.
    pub(super) fn send_away(&mut self) -> bool {
        let share = self.taken.len() / 8;
        let [mut strangers, mut guests, mut workers] = [Kind::default(); 3];
        for seat in self.taken.values().filter(|seat| !seat.leaving.load(Relaxed)) {
            match seat.standing.load(Relaxed) {
                STRANGER => strangers.add(seat),
                GUEST => guests.add(seat),
                _ => workers.add(seat),
            }
        }
        let newcomers = strangers.with(guests);
        let least = [(strangers, share), (guests, share), (newcomers, 1), (newcomers.with(workers), 0)]
            .into_iter()
            .find_map(|(kind, spared)| kind.oldest.filter(|_| kind.count > spared));
        least
            .inspect(|seat| {
                seat.leaving.store(true, Relaxed);
                seat.end.notify_one();
            })
            .is_some()
    }
}

/// Connections of one standing: how many, and which was heard of longest ago.
#[derive(Debug, Clone, Copy, Default)]
struct Kind<'a> {
    count: usize,
    oldest: Option<&'a Seat>,
}

impl<'a> Kind<'a> {
    fn add(&mut self, seat: &'a Seat) {
        *self = self.with(Kind { count: 1, oldest: Some(seat) });
    }

    fn with(self, other: Self) -> Self {
        let both = self.oldest.into_iter().chain(other.oldest);
        Self { count: self.count + other.count, oldest: both.min_by_key(|seat| seat.seen.load(Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_go_first_and_the_oldest_of_them_but_newcomers_have_a_moment() {
        let mut seats = Seats::default();
        let all: Vec<_> = (0..24).map(|_| seats.take().1).collect();
        // 0 to 7 are workers, of which 0 was heard of last; 8 to 15 are guests; the rest are strangers. A share is 3.
        all[1..8].iter().for_each(|seat| seat.promote(Standing::Worker));
        all[8..16].iter().for_each(|seat| seat.promote(Standing::Guest));
        all[0].promote(Standing::Worker);
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..24).collect();
        while seats.send_away() {
            let place = left.iter().position(|&at| all[at].leaving.load(Relaxed)).expect("one was asked");
            order.push(left.remove(place));
        }
        let newcomers = [16, 17, 18, 19, 20, 8, 9, 10, 11, 12, 21, 22, 23, 13, 14];
        assert_eq!(order[..15], newcomers);
        assert_eq!(order[15..], [1, 2, 3, 4, 5, 6, 7, 15, 0], "the last guest counts like a worker");
    }
}
