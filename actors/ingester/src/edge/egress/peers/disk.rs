//! Disk jobs of peers and their results.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Peers, Wakeups};
use crate::edge::egress::{queue::Entry, spill_file::SpillFile};

/// Most bytes written to disk in one job.
const WRITE_BATCH: usize = 4 << 20;

/// Job for the spill thread: write, then read.
#[derive(Debug)]
pub(in crate::edge::egress) struct DiskJob {
    pub(in crate::edge::egress) peer: Arc<str>,
    pub(in crate::edge::egress) epoch: u64,
    pub(in crate::edge::egress) file: Arc<Mutex<SpillFile>>,
    pub(in crate::edge::egress) write: Option<Vec<Entry>>,
    pub(in crate::edge::egress) read: Option<usize>,
}

impl Peers {
    /// Moves messages from behind the front of the peer's queue; true if the disk has work.
    pub(in crate::edge::egress) fn settle(&mut self, name: &str) -> bool {
        let Some(peer) = self.map.get_mut(name) else { return false };
        if peer.queue.is_direct() {
            return false;
        }
        let before = peer.queue.to_disk_record_bytes();
        peer.queue.settle(self.shares);
        self.to_disk_bytes -= before - peer.queue.to_disk_record_bytes();
        if let Some(attached) = &peer.attached {
            attached.connection.wake.notify_one();
        }
        peer.list_in(&mut self.listed, self.shares)
    }

    pub(in crate::edge::egress) fn next_job(&mut self) -> Option<DiskJob> {
        loop {
            let name = self.listed.pop_front()?;
            let Some(peer) = self.map.get_mut(&name) else { continue };
            peer.listed = false;
            let write = if self.write_failed { None } else { peer.queue.begin_write(WRITE_BATCH) };
            let read = if self.read_failed { None } else { peer.queue.begin_read(self.shares) };
            if write.is_some() || read.is_some() {
                return Some(DiskJob { peer: name, epoch: self.epoch, file: peer.file.clone(), write, read });
            }
        }
    }

    /// Records the outcome of a write: `bytes` on disk, or None if it failed and wrote nothing.
    pub(in crate::edge::egress) fn written(&mut self, peer: &str, epoch: u64, bytes: Option<u64>) -> Wakeups {
        self.write_failed = bytes.is_none();
        let Some(known) = self.map.get_mut(peer).filter(|_| epoch == self.epoch) else {
            return Wakeups::default();
        };
        known.queue.end_write(bytes);
        if let Some(bytes) = bytes {
            self.disk_bytes += bytes;
            self.to_disk_bytes -= bytes;
        }
        // After a failure the spill thread retries after a delay.
        let disk = self.settle(peer) && bytes.is_some();
        Wakeups { room: self.waiting_senders > 0, disk }
    }

    /// Records the outcome of a read of `bytes` on disk; empty if it failed.
    pub(in crate::edge::egress) fn read_back(
        &mut self,
        peer: &str,
        epoch: u64,
        entries: Vec<Entry>,
        bytes: u64,
    ) -> Wakeups {
        let Some(known) = self.map.get_mut(peer).filter(|_| epoch == self.epoch) else {
            return Wakeups::default();
        };
        self.read_failed = entries.is_empty();
        known.queue.end_read(entries, bytes);
        self.disk_bytes -= bytes;
        if let Some(attached) = &known.attached {
            attached.connection.wake.notify_one();
        }
        let disk = self.settle(peer) && !self.read_failed;
        Wakeups { room: self.waiting_senders > 0, disk }
    }

    /// Lists every peer with work for the disk and allows writing and reading again. `restarted`:
    /// the spill thread has lost its job.
    pub(in crate::edge::egress) fn retry_disk(&mut self, restarted: bool) -> Wakeups {
        self.write_failed = false;
        self.read_failed = false;
        self.listed.clear();
        for peer in self.map.values_mut() {
            if restarted {
                peer.queue.abandon_disk_work();
            }
            peer.listed = false;
            peer.list_in(&mut self.listed, self.shares);
        }
        Wakeups { room: self.waiting_senders > 0, disk: false }
    }
}
