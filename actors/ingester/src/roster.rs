//! Which workers are connected: those that were heard of lately (spec §4). Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

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
    /// When it was last heard of, seconds since 1970.
    pub last_seen: f64,
}

/// Workers by process.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    workers: BTreeMap<Uuid, ConnectedWorker>,
}

impl Roster {
    /// A worker was heard of at `now`, seconds since 1970. Is it new? The uuid must be one of version 4: another one in the
    /// configuration key would end the workers' own tasks, so that it is not listed.
    pub fn heard(&mut self, name: Arc<str>, service_uuid: Uuid, now: f64) -> bool {
        if service_uuid.get_version_num() != 4 {
            return false;
        }
        let new = !self.workers.contains_key(&service_uuid);
        if new && self.workers.len() >= WORKERS_MAX {
            let longest = self.workers.values().min_by(|a, b| a.last_seen.total_cmp(&b.last_seen));
            if let Some(uuid) = longest.map(|worker| worker.service_uuid) {
                self.workers.remove(&uuid);
            }
        }
        self.workers.insert(service_uuid, ConnectedWorker { name, service_uuid, last_seen: now });
        new
    }

    /// Forgets who was not heard of lately. Was there any?
    pub fn forget(&mut self, now: f64) -> bool {
        let before = self.workers.len();
        self.workers.retain(|_, worker| now - worker.last_seen < FORGET_AFTER.as_secs_f64());
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
        assert!(roster.heard("w1".into(), uuid(1), 100.0));
        assert!(roster.heard("w2".into(), uuid(2), 102.0));
        assert!(!roster.heard("w2".into(), uuid(2), 103.0));
        assert!(!roster.forget(103.9));
        assert!(roster.forget(104.0));
        assert_eq!(roster.workers().values().map(|w| &*w.name).collect::<Vec<_>>(), ["w2"]);
        assert!(roster.heard("w1".into(), uuid(1), 104.0), "new again");
    }

    #[test]
    fn a_uuid_that_workers_would_choke_on_is_not_listed() {
        let mut roster = Roster::default();
        assert!(!roster.heard("w1".into(), Uuid::from_u128(7), 1.0));
        assert!(roster.workers().is_empty());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut roster = Roster::default();
        (0..WORKERS_MAX as u128 + 10).for_each(|n| _ = roster.heard("w".into(), uuid(n), n as f64));
        assert_eq!(roster.workers().len(), WORKERS_MAX);
        assert!(!roster.workers().contains_key(&uuid(3)));
    }
}
