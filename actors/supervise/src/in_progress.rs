//! The work that a child has in hand: shown in the tree while it lasts, named in the exit when it is lost.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;

/// The work items in progress of one child, oldest first: a message, and what its handler or a future of the child names beside.
#[derive(Debug, Default)]
pub(crate) struct Hand(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    works: Vec<(u64, &'static str, Instant)>,
    next: u64,
    lost: Option<&'static str>,
}

/// Holds the name of the work in progress; dropping it ends the work.
#[derive(Debug)]
pub struct WorkGuard {
    hand: Arc<Hand>,
    id: u64,
}

impl Hand {
    pub(crate) fn take(self: &Arc<Self>, name: &'static str) -> WorkGuard {
        let mut held = self.0.lock();
        let id = held.next;
        held.next += 1;
        held.lost = None;
        held.works.push((id, name, Instant::now()));
        WorkGuard { hand: self.clone(), id }
    }

    /// The work that lasts longest.
    pub(crate) fn oldest(&self) -> Option<(&'static str, Instant)> {
        self.0.lock().works.first().map(|(_, name, since)| (*name, *since))
    }

    /// What is in hand now is about to be dropped with its incarnation.
    pub(crate) fn lose(&self) {
        let mut held = self.0.lock();
        held.lost = held.lost.or(held.works.first().map(|(_, name, _)| *name));
    }

    /// The work that was lost since the last call.
    pub(crate) fn take_lost(&self) -> Option<&'static str> {
        self.0.lock().lost.take()
    }

    fn put_down(&self, id: u64) {
        let mut held = self.0.lock();
        let Some(position) = held.works.iter().rposition(|work| work.0 == id) else {
            return;
        };
        let (_, name, _) = held.works.remove(position);
        if std::thread::panicking() {
            // Unwinding goes from the inside to the outside: the outermost name, the message's, stays.
            held.lost = Some(name);
        }
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.hand.put_down(self.id);
    }
}
