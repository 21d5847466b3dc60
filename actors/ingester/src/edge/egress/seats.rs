//! Who is connected, who may be sent away first, and how many there may be.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Notify;

/// More connections than this are never held, whatever the limit on open files.
const CONNECTIONS_MAX: u64 = 8_192;

/// Raises the soft limit on open files to the hard one. What cannot be raised stays.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "cannot raise the limit on open files: fewer workers can be connected");
    }
}

/// How many connections the limit on open files sensibly allows: half of it, since sources, spilled messages and the other subsystems open
/// files, too.
pub(super) fn connection_limit() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from((descriptors / 2).clamp(1, CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

/// How far a connection has shown what it is. The lower, the sooner it is sent away for a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Standing {
    /// It has not finished the handshake.
    Stranger,
    /// It has, but has not pinged.
    Guest,
    /// It pings as workers do.
    Worker,
}

/// One connection, as the house sees it.
#[derive(Debug)]
pub(super) struct Seat {
    standing: AtomicU8,
    /// The turn of its last sign of life.
    seen: AtomicU64,
    clock: Arc<AtomicU64>,
    /// Notified when it is to end.
    pub(super) end: Arc<Notify>,
    leaving: AtomicU8,
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
            standing: AtomicU8::new(Standing::Stranger as u8),
            seen: AtomicU64::new(self.clock.fetch_add(1, Relaxed)),
            clock: self.clock.clone(),
            end: Arc::default(),
            leaving: AtomicU8::new(0),
        });
        self.taken.insert(id, seat.clone());
        (id, seat)
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.taken.remove(&id);
    }

    /// Asks the connection to end that has shown least, and of these the one that was heard of longest ago. False if all are leaving.
    pub(super) fn send_away(&mut self) -> bool {
        let staying = self.taken.values().filter(|seat| seat.leaving.load(Relaxed) == 0);
        let least = staying.min_by_key(|seat| (seat.standing.load(Relaxed), seat.seen.load(Relaxed)));
        least
            .inspect(|seat| {
                seat.leaving.store(1, Relaxed);
                seat.end.notify_one();
            })
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_go_first_and_the_oldest_of_them() {
        let mut seats = Seats::default();
        let all: Vec<_> = (0..5).map(|_| seats.take().1).collect();
        all[0].promote(Standing::Worker);
        all[1].promote(Standing::Guest);
        all[4].promote(Standing::Worker);
        all[0].promote(Standing::Worker);
        let mut order = Vec::new();
        while seats.send_away() {
            let next = all.iter().position(|seat| seat.leaving.load(Relaxed) == 1).expect("one was asked");
            all[next].leaving.store(2, Relaxed);
            order.push(next);
        }
        assert_eq!(order, [2, 3, 1, 4, 0]);
    }
}
