//! Limit of the connections of one socket, with a reserve for probes: `/livez`, `/readyz` and `/metrics`.
//!
//! Requests other than probes are admitted to a part of the connections only, and wait for one. While all
//! connections are in use, those that are not admitted within [`GRACE`] are closed for new ones, the oldest
//! first: clients with slow heads or unread answers.

use std::{cell::Cell, sync::Arc, time::Duration};

use orchestrator_edge::ConnectionSlot;
use rustix::process::{Resource, getrlimit};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

/// Maximum number of concurrent connections on each socket. More wait in the backlog.
const CONNECTIONS_MAX: u64 = 192;
/// Divisor of the process's file descriptors that gives the share of both sockets. The subsystems need the
/// rest.
const DESCRIPTORS_SHARE: u64 = 32;
/// Divisor of the connections that gives the reserve for probes.
const PROBES_SHARE: usize = 8;
/// Time for which a connection is kept although it is not admitted and all are in use.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// Longest wait of a request for its admission.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Priorities of connections, initially 0: [`GRACE`] is over; a request other than a probe is answered.
const OLD: u8 = 1;
const ADMITTED: u8 = 2;

/// Each socket has this limit of its own.
pub(crate) fn connections_max() -> usize {
    // The hard limit, to which subsystems raise the soft limit.
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    (descriptors / DESCRIPTORS_SHARE / 2).clamp(8, CONNECTIONS_MAX) as usize
}

pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/metrics")
}

/// Places for requests other than probes, of a socket with `max` connections.
pub(crate) fn places(max: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(max - max / PROBES_SHARE))
}

/// Chooses the oldest connection that may be closed.
pub(crate) fn oldest<'a>(
    _count: usize,
    slots: &mut dyn Iterator<Item = &'a ConnectionSlot>,
) -> Option<&'a ConnectionSlot> {
    slots.filter(|slot| slot.priority() == OLD).min_by_key(|slot| slot.last_changed())
}

/// Admission of one connection. Dropping it frees the place.
pub(crate) struct Admission {
    slot: Arc<ConnectionSlot>,
    places: Arc<Semaphore>,
    place: Cell<Option<OwnedSemaphorePermit>>,
}

impl Admission {
    pub(crate) fn new(slot: Arc<ConnectionSlot>, places: Arc<Semaphore>) -> Self {
        Self { slot, places, place: Cell::default() }
    }

    /// Waits until a request other than a probe may be answered. Returns false if that takes too long.
    pub(crate) async fn admit(&self) -> bool {
        let Ok(Ok(place)) = timeout(ADMISSION_TIMEOUT, self.places.clone().acquire_owned()).await else {
            return false;
        };
        self.place.set(Some(place));
        self.slot.set_priority(ADMITTED);
        !self.slot.is_closing()
    }

    /// Waits until the connection has to be closed for another one.
    pub(crate) async fn evicted(&self) {
        sleep(GRACE).await;
        if self.slot.priority() != ADMITTED {
            self.slot.set_priority(OLD);
        }
        self.slot.closing().await;
    }
}
