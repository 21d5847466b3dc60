//! What the disk has to do for peers, and what it brings back.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{News, Peers};
use crate::edge::egress::{queue::Entry, spill_file::SpillFile};

/// No more is written to disk in one go, bytes.
const WRITE_BATCH: usize = 4 << 20;

/// Work for the disk: at first the writing, then the reading.
#[derive(Debug)]
pub(in crate::edge::egress) struct DiskJob {
    pub(in crate::edge::egress) peer: Arc<str>,
    pub(in crate::edge::egress) epoch: u64,
    pub(in crate::edge::egress) file: Arc<Mutex<SpillFile>>,
    pub(in crate::edge::egress) write: Option<Vec<Entry>>,
    pub(in crate::edge::egress) read: Option<usize>,
}

impl Peers {
    /// Moves on what the peer has behind its front; true if the disk has to do something now.
    pub(in crate::edge::egress) fn settle(&mut self, name: &str) -> bool {
        let Some(peer) = self.map.get_mut(name) else { return false };
        if peer.queue.is_direct() {
            return false;
        }
        let before = peer.queue.to_disk_record_bytes();
        peer.queue.settle(self.shares);
        self.to_disk_bytes -= before - peer.queue.to_disk_record_bytes();
        if let Some(attached) = &peer.attached {
            attached.line.wake.notify_one();
        }
        peer.list_in(&mut self.listed, self.shares)
    }

    /// The next work for the disk.
    pub(in crate::edge::egress) fn next_job(&mut self) -> Option<DiskJob> {
        loop {
            let name = self.listed.pop_front()?;
            let Some(peer) = self.map.get_mut(&name) else { continue };
            peer.listed = false;
            let write = if self.failing { None } else { peer.queue.begin_write(WRITE_BATCH) };
            let read = if self.unreadable { None } else { peer.queue.begin_read(self.shares) };
            if write.is_some() || read.is_some() {
                return Some(DiskJob { peer: name, epoch: self.epoch, file: peer.file.clone(), write, read });
            }
        }
    }

    /// What was to be written is written, `bytes` on disk; None: it failed, and nothing of it is there.
    pub(in crate::edge::egress) fn written(&mut self, peer: &str, epoch: u64, bytes: Option<u64>) -> News {
        self.failing = bytes.is_none();
        let Some(known) = self.map.get_mut(peer).filter(|_| epoch == self.epoch) else {
            return News::default();
        };
        known.queue.end_write(bytes);
        if let Some(bytes) = bytes {
            self.disk_bytes += bytes;
            self.to_disk_bytes -= bytes;
        }
        // After a failure the thread comes back by itself, a while later.
        let disk = self.settle(peer) && bytes.is_some();
        News { room: self.waiting > 0, disk }
    }

    /// What was to be read is read, from `bytes` on disk; empty if that failed.
    pub(in crate::edge::egress) fn read_back(
        &mut self,
        peer: &str,
        epoch: u64,
        entries: Vec<Entry>,
        bytes: u64,
    ) -> News {
        let Some(known) = self.map.get_mut(peer).filter(|_| epoch == self.epoch) else {
            return News::default();
        };
        self.unreadable = entries.is_empty();
        known.queue.end_read(entries, bytes);
        self.disk_bytes -= bytes;
        if let Some(attached) = &known.attached {
            attached.line.wake.notify_one();
        }
        let disk = self.settle(peer) && !self.unreadable;
        News { room: self.waiting > 0, disk }
    }

    /// The disk's thread begins anew, after a while or a crash: everything that wants the disk is listed, and new records are tried.
    pub(in crate::edge::egress) fn retry_disk(&mut self, anew: bool) -> News {
        self.failing = false;
        self.unreadable = false;
        self.listed.clear();
        for peer in self.map.values_mut() {
            if anew {
                peer.queue.abandon_disk_work();
            }
            peer.listed = false;
            peer.list_in(&mut self.listed, self.shares);
        }
        News { room: self.waiting > 0, disk: false }
    }
}
