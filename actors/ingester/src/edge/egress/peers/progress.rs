//! Events of the current mapping at each peer, and its pings.

use std::{ptr, sync::Arc, time::Instant};

use smallvec::SmallVec;

use super::{Peer, Peers};
use crate::{
    assignment::Assignment,
    edge::egress::progress::{FinishedEvent, ReportsRead},
};

/// Names of workers that are recognised by their address. Comparing more of them takes as long as a lookup.
const NAMES: usize = 32;

impl Peers {
    /// Records the last of `events`, which are in order, for each worker. Events of one entry share the names of workers, of which the
    /// first few are looked up once (measured: a lookup for each event takes a twentieth of the events' rate).
    pub(in crate::edge::egress) fn record_assigned(&mut self, events: &[Assignment]) {
        let mut recorded: SmallVec<[*const str; NAMES]> = SmallVec::new();
        for Assignment { event, streams } in events.iter().rev() {
            for worker in streams.iter().flat_map(|(_, workers)| workers) {
                let name = Arc::as_ptr(worker);
                if recorded.iter().any(|known| ptr::addr_eq(*known, name)) {
                    continue;
                }
                if recorded.len() < NAMES {
                    recorded.push(name);
                }
                let peer = match self.map.get_mut(worker) {
                    Some(peer) => peer,
                    None => self.map.entry(worker.clone()).or_insert_with(|| Peer::new(worker.clone())),
                };
                peer.progress.assigned = peer.progress.assigned.max(Some(*event));
            }
        }
    }

    /// Records reports of the mapping `epoch`; those of unknown workers are ignored.
    pub(in crate::edge::egress) fn record_finished(&mut self, epoch: u64, reports: &[FinishedEvent]) {
        for FinishedEvent { worker, event } in reports.iter().filter(|_| epoch == self.epoch) {
            if let Some(peer) = self.map.get_mut(&**worker) {
                peer.progress.finished = peer.progress.finished.max(Some(*event));
            }
        }
    }

    /// Records that all reports of the mapping `epoch` were read.
    pub(in crate::edge::egress) fn record_reports_read(&mut self, epoch: u64, read: ReportsRead) {
        if epoch == self.epoch {
            self.reports_read = Some(read);
        }
    }

    pub(in crate::edge::egress) fn reports_read(&self) -> Option<ReportsRead> {
        self.reports_read
    }

    /// Number of the mapping, for [`Peers::record_finished`].
    pub(in crate::edge::egress) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Records a ping on the connection `id`.
    pub(in crate::edge::egress) fn pinged(&mut self, name: &str, id: u64, now: Instant) {
        let attached = self.map.get_mut(name).and_then(|peer| peer.attached.as_mut());
        if let Some(attached) = attached.filter(|attached| attached.connection.id == id) {
            attached.pinged = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use smallvec::smallvec;

    use super::*;
    use crate::{assignment::WorkerName, edge::egress::EgressLimits};

    #[test]
    fn the_last_event_of_each_worker_is_recorded() {
        let mut peers = Peers::new(&EgressLimits::default());
        let mut next = 0;
        let names: BTreeMap<char, WorkerName> =
            ('a'..='z').map(|name| (name, name.to_string().into())).collect();
        for (workers, expected) in
            [("abcab", "a3 b4 c2"), ("bb", "a3 b6 c2"), ("acac", "a9 b6 c10"), ("dd", "a9 b6 c10 d12")]
        {
            let assigned = |(event, worker): (u64, char)| Assignment {
                event,
                streams: smallvec![(0, smallvec![names[&worker].clone()])],
            };
            let events: Vec<_> = (next..).zip(workers.chars()).map(assigned).collect();
            next += events.len() as u64;
            peers.record_assigned(&events);
            let last = |peer: &Peer| format!("{}{}", peer.name, peer.progress.assigned.unwrap());
            let mut recorded: Vec<_> = peers.map.values().map(last).collect();
            recorded.sort();
            assert_eq!(recorded.join(" "), expected);
        }
    }
}
