//! Workers that have pinged recently (CONTRACT ID04). Pure.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use uuid::Uuid;

/// Time without a ping after which a worker is removed.
pub(crate) const EXPIRY: Duration = Duration::from_secs(4);
/// Most listed workers; the one with the oldest ping is removed for a new one.
const WORKERS_MAX: usize = 4_096;

/// A worker as listed in the configuration key.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ConnectedWorker {
    /// Name, the identity of its socket.
    pub name: Arc<str>,
    /// UUID of the process.
    pub service_uuid: Uuid,
    /// Wall-clock time of the last ping, seconds since 1970.
    pub last_seen: f64,
    /// Monotonic time of the last ping, used for the expiry.
    #[serde(skip)]
    pub last_ping: Instant,
}

/// Connected workers by process UUID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    workers: BTreeMap<Uuid, ConnectedWorker>,
}

impl Roster {
    /// Records a ping at `now`, which is `last_seen` seconds since 1970. Returns true if the worker
    /// is new. A UUID of another version than 4 is not listed, since it would end the tasks of
    /// dranspose's workers.
    pub(crate) fn record_ping(
        &mut self,
        name: Arc<str>,
        service_uuid: Uuid,
        now: Instant,
        last_seen: f64,
    ) -> bool {
        if service_uuid.get_version_num() != 4 {
            return false;
        }
        let new = !self.workers.contains_key(&service_uuid);
        if new && self.workers.len() >= WORKERS_MAX {
            let longest = self.workers.values().min_by_key(|worker| worker.last_ping);
            if let Some(uuid) = longest.map(|worker| worker.service_uuid) {
                self.workers.remove(&uuid);
            }
        }
        self.workers.insert(service_uuid, ConnectedWorker { name, service_uuid, last_seen, last_ping: now });
        new
    }

    /// Removes silent workers; true if there were any.
    pub(crate) fn remove_expired(&mut self, now: Instant) -> bool {
        let before = self.workers.len();
        self.workers.retain(|_, worker| now.saturating_duration_since(worker.last_ping) < EXPIRY);
        self.workers.len() < before
    }

    pub(crate) fn workers(&self) -> &BTreeMap<Uuid, ConnectedWorker> {
        &self.workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(n: u128) -> Uuid {
        uuid::Builder::from_random_bytes(n.to_be_bytes()).into_uuid()
    }

    #[test]
    fn a_silent_worker_is_removed() {
        let mut roster = Roster::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        assert!(roster.record_ping("w1".into(), uuid(1), at(0), 5_000.0));
        // The wall clock is set back.
        assert!(roster.record_ping("w2".into(), uuid(2), at(2_000), 102.0));
        assert!(!roster.record_ping("w2".into(), uuid(2), at(3_000), 103.0));
        assert!(!roster.remove_expired(at(3_900)));
        assert!(roster.remove_expired(at(4_000)));
        assert_eq!(
            roster.workers().values().map(|w| (&*w.name, w.last_seen)).collect::<Vec<_>>(),
            [("w2", 103.0)]
        );
        assert!(roster.record_ping("w1".into(), uuid(1), at(4_000), 104.0), "new again");
    }

    #[test]
    fn a_uuid_of_another_version_is_not_listed() {
        let mut roster = Roster::default();
        assert!(!roster.record_ping("w1".into(), Uuid::from_u128(7), Instant::now(), 1.0));
        assert!(roster.workers().is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut roster = Roster::default();
        let begin = Instant::now();
        let at = |n: u128| begin + Duration::from_millis(n as u64);
        (0..WORKERS_MAX as u128 + 10).for_each(|n| _ = roster.record_ping("w".into(), uuid(n), at(n), 0.0));
        assert_eq!(roster.workers().len(), WORKERS_MAX);
        assert!(!roster.workers().contains_key(&uuid(3)));
    }
}
