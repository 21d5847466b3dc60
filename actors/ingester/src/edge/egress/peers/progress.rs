//! Events of the current mapping at each peer, and its pings.

use std::time::Instant;

use super::{Peer, Peers};
use crate::{
    assignment::WorkerName,
    edge::egress::{
        locate::Place,
        progress::{FinishedEvent, ReportsRead},
    },
};

impl Peers {
    /// Records that `event` is assigned to a worker.
    pub(in crate::edge::egress) fn record_assigned(&mut self, worker: &WorkerName, event: u64) {
        let peer = self.map.entry(worker.clone()).or_insert_with(|| Peer::new(worker.clone()));
        peer.progress.assigned = peer.progress.assigned.max(Some(event));
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

    /// Place of `event` at each worker for which it, or a later one, was queued.
    pub(in crate::edge::egress) fn locate(&self, event: u64) -> Vec<(WorkerName, Place)> {
        let place = |peer: &Peer| {
            let queued = peer.progress.queued.filter(|queued| *queued >= event)?;
            Some((peer.name.clone(), peer.queue.locate(event, queued)))
        };
        self.map.values().filter_map(place).collect()
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
