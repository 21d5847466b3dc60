//! Connected workers: those that have sent a ping lately (CONTRACT ID04). Pure.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use uuid::Uuid;

/// A worker that was not heard of for so long is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(4);
/// Workers that are listed at the most; the one heard of longest ago makes room.
const WORKERS_MAX: usize = 4_096;

/// A worker as the configuration key lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectedWorker {
    /// Its name: the identity of its socket.
    pub name: Arc<str>,
    /// The process.
    pub service_uuid: Uuid,
    /// When it was last heard of, seconds since 1970: for readers of the key.
    pub last_seen: f64,
    /// The same on a clock that nobody sets.
    #[serde(skip)]
    pub heard_at: Instant,
}

/// Workers by process.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    workers: BTreeMap<Uuid, ConnectedWorker>,
}

impl Roster {
    /// A worker was heard of at `now`, which is `last_seen` seconds since 1970. Is it new? The uuid must be one of version 4: another one in the
    /// configuration key would end the workers' own tasks, so that it is not listed.
    pub fn heard(&mut self, name: Arc<str>, service_uuid: Uuid, now: Instant, last_seen: f64) -> bool {
        if service_uuid.get_version_num() != 4 {
            return false;
        }
        let new = !self.workers.contains_key(&service_uuid);
        if new && self.workers.len() >= WORKERS_MAX {
            let longest = self.workers.values().min_by_key(|worker| worker.heard_at);
            if let Some(uuid) = longest.map(|worker| worker.service_uuid) {
                self.workers.remove(&uuid);
            }
        }
        self.workers.insert(service_uuid, ConnectedWorker { name, service_uuid, last_seen, heard_at: now });
        new
    }

    /// Forgets who was not heard of lately. Was there any?
    pub fn forget(&mut self, now: Instant) -> bool {
        let before = self.workers.len();
        self.workers.retain(|_, worker| now.saturating_duration_since(worker.heard_at) < FORGET_AFTER);
        self.workers.len() < before
    }

    /// All of them.
    pub fn workers(&self) -> &BTreeMap<Uuid, ConnectedWorker> {
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
    fn who_is_silent_is_forgotten() {
        let mut roster = Roster::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        assert!(roster.heard("w1".into(), uuid(1), at(0), 5_000.0));
        // The wall clock is set back meanwhile.
        assert!(roster.heard("w2".into(), uuid(2), at(2_000), 102.0));
        assert!(!roster.heard("w2".into(), uuid(2), at(3_000), 103.0));
        assert!(!roster.forget(at(3_900)));
        assert!(roster.forget(at(4_000)));
        assert_eq!(
            roster.workers().values().map(|w| (&*w.name, w.last_seen)).collect::<Vec<_>>(),
            [("w2", 103.0)]
        );
        assert!(roster.heard("w1".into(), uuid(1), at(4_000), 104.0), "new again");
    }

    #[test]
    fn a_uuid_that_workers_would_choke_on_is_not_listed() {
        let mut roster = Roster::default();
        assert!(!roster.heard("w1".into(), Uuid::from_u128(7), Instant::now(), 1.0));
        assert!(roster.workers().is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut roster = Roster::default();
        let begin = Instant::now();
        let at = |n: u128| begin + Duration::from_millis(n as u64);
        (0..WORKERS_MAX as u128 + 10).for_each(|n| _ = roster.heard("w".into(), uuid(n), at(n), 0.0));
        assert_eq!(roster.workers().len(), WORKERS_MAX);
        assert!(!roster.workers().contains_key(&uuid(3)));
    }
}
