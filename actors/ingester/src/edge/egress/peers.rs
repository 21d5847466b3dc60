//! Queues and connections of all peers.

mod disk;
mod progress;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{net::TcpStream, sync::Notify};

pub(super) use self::disk::DiskJob;
use super::{
    forwarding::ForwardingTimes,
    kernel_queue,
    limits::{BACKLOG, EgressLimits, SMALL_FRAME},
    message::Message,
    peer_state::PeerState,
    progress::{Progress, ReportsRead},
    queue::{Destination, Entry, PeerQueue, RECORD_HEAD, Shares},
    spill_file::SpillFile,
    staging::Staging,
};

/// Outcome of offering a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferOutcome {
    Queued,
    QueuedForDisk,
    Refused,
}

/// Tasks to wake after a change.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wakeups {
    pub(super) room: bool,
    pub(super) disk: bool,
}

/// A connection as known to the queues.
#[derive(Debug)]
pub(super) struct PeerConnection {
    pub(super) id: u64,
    pub(super) stream: Arc<TcpStream>,
    /// Notified when there is something to write.
    pub(super) wake: Arc<Notify>,
    /// Notified to end the connection, after it was replaced or reset.
    pub(super) end: Arc<Notify>,
}

#[derive(Debug)]
struct Attached {
    connection: PeerConnection,
    /// A message of the current mapping was given to it.
    used: bool,
    /// It was notified and has not read its queue since.
    notified: bool,
    /// Time when it took the last byte, or was attached.
    taken: Instant,
    /// Time of its last ping.
    pinged: Option<Instant>,
}

#[derive(Debug)]
struct Peer {
    name: Arc<str>,
    queue: PeerQueue,
    file: Arc<Mutex<SpillFile>>,
    attached: Option<Attached>,
    /// Cost of the message that was refused last, bytes.
    refused: Option<usize>,
    /// It is in the list of peers with work for the disk.
    listed: bool,
    /// Its events of the current mapping.
    progress: Progress,
    /// Time when a connection took the last byte of the last message.
    given: Option<Instant>,
    events_out: u64,
    bytes_out: u64,
}

/// Sums over all peers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) queued_bytes: u64,
    pub(super) spilled_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Peers {
    map: HashMap<Arc<str>, Peer>,
    shares: Shares,
    spill_bytes: u64,
    /// Number of the mapping. Results of disk jobs of older mappings are dropped.
    epoch: u64,
    /// Bytes on disk, and bytes queued for the disk as encoded there.
    disk_bytes: u64,
    to_disk_bytes: u64,
    /// The last write to disk failed.
    write_failed: bool,
    /// The last read from disk failed.
    read_failed: bool,
    listed: VecDeque<Arc<str>>,
    next_connection_id: u64,
    pub(super) waiting_senders: usize,
    #[cfg(test)]
    pub(super) local_addr: Option<std::net::SocketAddr>,
    /// Connections reset at a change of mappings.
    pub(super) resets: u64,
    /// Last complete read of the workers' reports.
    reports_read: Option<ReportsRead>,
    /// None before the child has started once.
    pub(super) forwarding: Option<ForwardingTimes>,
}

fn record_bytes(entry: &Entry) -> u64 {
    (entry.wire + RECORD_HEAD) as u64
}

impl Peers {
    pub(super) fn new(limits: &EgressLimits) -> Self {
        Self {
            map: HashMap::new(),
            shares: Shares::new(limits.bytes_per_peer, limits.spill_bytes > 0),
            spill_bytes: limits.spill_bytes,
            epoch: 0,
            disk_bytes: 0,
            to_disk_bytes: 0,
            write_failed: false,
            read_failed: false,
            listed: VecDeque::new(),
            next_connection_id: 0,
            waiting_senders: 0,
            #[cfg(test)]
            local_addr: None,
            resets: 0,
            reports_read: None,
            forwarding: None,
        }
    }

    fn disk_takes(&self, bytes: usize) -> bool {
        !self.write_failed && self.disk_bytes + self.to_disk_bytes + bytes as u64 <= self.spill_bytes
    }

    /// Queues a message, or remembers the cost of the refused one.
    pub(super) fn offer(&mut self, worker: &str, message: &Arc<Message>, at_ms: u64) -> OfferOutcome {
        let entry = Entry::new(message.clone(), at_ms);
        let disk = self.disk_takes(entry.wire + RECORD_HEAD);
        let peer = match self.map.get_mut(worker) {
            Some(peer) => peer,
            None => self.map.entry(worker.into()).or_insert_with(|| Peer::new(worker.into())),
        };
        peer.progress.queued = Some(message.event);
        match peer.queue.destination(entry.cost(), self.shares, disk) {
            Destination::Front => {
                let backlog = peer.queue.memory() > BACKLOG;
                peer.queue.push_front_share(if backlog { entry.compact(SMALL_FRAME) } else { entry });
                if let Some(attached) = &mut peer.attached
                    && !std::mem::replace(&mut attached.notified, true)
                {
                    attached.connection.wake.notify_one();
                }
                OfferOutcome::Queued
            }
            Destination::Disk => {
                self.to_disk_bytes += record_bytes(&entry);
                peer.queue.push_to_disk(entry.compact(SMALL_FRAME));
                let listed = peer.list_in(&mut self.listed, self.shares);
                if listed { OfferOutcome::QueuedForDisk } else { OfferOutcome::Queued }
            }
            Destination::Refused => {
                peer.refused = Some(entry.cost());
                OfferOutcome::Refused
            }
        }
    }

    pub(super) fn has_room(&self, worker: &str) -> bool {
        let Some(peer) = self.map.get(worker) else { return true };
        peer.refused.is_none_or(|cost| {
            let disk = self.disk_takes(cost);
            peer.queue.destination(cost, self.shares, disk) != Destination::Refused
        })
    }

    /// Attaches a ready connection at `now` and returns its id. An older connection of the same
    /// identity ends.
    pub(super) fn attach(
        &mut self,
        name: &Arc<str>,
        stream: Arc<TcpStream>,
        wake: Arc<Notify>,
        end: Arc<Notify>,
        now: Instant,
    ) -> u64 {
        let id = self.next_connection_id;
        self.next_connection_id += 1;
        let peer = self.map.entry(name.clone()).or_insert_with(|| Peer::new(name.clone()));
        let connection = PeerConnection { id, stream, wake, end };
        let attached = Attached { connection, used: false, notified: false, taken: now, pinged: None };
        if let Some(old) = peer.attached.replace(attached) {
            old.connection.end.notify_one();
        }
        peer.queue.unstage();
        id
    }

    /// Detaches the connection, unless another one has replaced it.
    pub(super) fn detach(&mut self, name: &str, id: u64) {
        let Some(peer) = self.map.get_mut(name).filter(|peer| peer.is_attached(id)) else { return };
        peer.attached = None;
        peer.queue.unstage();
        // A peer that was never assigned an event is forgotten.
        if peer.queue.is_empty() && peer.progress.is_empty() {
            self.map.remove(name);
        }
    }

    /// Stages queued messages for the connection `id`. None: the connection was replaced or reset.
    pub(super) fn stage(&mut self, name: &str, id: u64, staging: &mut Staging) -> Option<()> {
        let peer = self.map.get_mut(name).filter(|peer| peer.is_attached(id))?;
        staging.expect(peer.queue.memory());
        let mut used = false;
        while staging.has_room()
            && let Some(entry) = peer.queue.stage()
        {
            staging.add(entry);
            used = true;
        }
        staging.close();
        if let Some(attached) = &mut peer.attached {
            attached.used |= used;
            attached.notified = false;
        }
        Some(())
    }

    /// Records that the connection `id` has written `bytes` at `now`, completing `messages`. None: the
    /// connection was replaced or reset.
    pub(super) fn sent(
        &mut self,
        name: &str,
        id: u64,
        (messages, bytes): (usize, usize),
        now: Instant,
    ) -> Option<Wakeups> {
        let peer = self.map.get_mut(name).filter(|peer| peer.is_attached(id))?;
        if let Some(attached) = &mut peer.attached {
            attached.taken = now;
        }
        peer.events_out += messages as u64;
        peer.bytes_out += bytes as u64;
        if messages == 0 {
            return Some(Wakeups::default());
        }
        peer.given = Some(now);
        let forwarding = &self.forwarding;
        peer.queue.sent(messages, |entry| {
            if let Some(forwarding) = forwarding {
                forwarding.record(entry, now);
            }
        });
        let disk = self.settle(name);
        Some(Wakeups { room: self.waiting_senders > 0, disk })
    }

    pub(super) fn purge(&mut self, finished: bool) {
        self.epoch += 1;
        self.disk_bytes = 0;
        self.to_disk_bytes = 0;
        self.listed.clear();
        self.reports_read = None;
        let resets = &mut self.resets;
        self.map.retain(|_, peer| {
            let waited = !peer.queue.is_empty();
            let Some(mut attached) = peer.attached.take() else { return false };
            let used = std::mem::take(&mut attached.used);
            if waited || used && (!finished || kernel_queue::may_have_unsent(&attached.connection.stream)) {
                *resets += 1;
                reset(&attached.connection);
                return false;
            }
            let (events_out, bytes_out) = (peer.events_out, peer.bytes_out);
            *peer = Peer { events_out, bytes_out, attached: Some(attached), ..Peer::new(peer.name.clone()) };
            true
        });
    }

    pub(super) fn totals(&self) -> Totals {
        let queued_bytes = self.map.values().map(|peer| peer.queue.memory() as u64).sum();
        Totals { queued_bytes, spilled_bytes: self.disk_bytes }
    }

    pub(super) fn states(&self, now_ms: u64) -> Vec<PeerState> {
        let age = |at_ms| Duration::from_millis(now_ms.saturating_sub(at_ms));
        let state = |peer: &Peer| PeerState {
            worker: peer.name.clone(),
            connected: peer.attached.is_some(),
            queued_bytes: peer.queue.memory(),
            queued_messages: peer.queue.messages(),
            spilled_bytes: peer.queue.disk_bytes(),
            events_out: peer.events_out,
            bytes_out: peer.bytes_out,
            oldest_age: peer.queue.oldest_ms().map(age),
            taken_age: peer.attached.as_ref().map(|attached| attached.taken.elapsed()),
            given_age: peer.given.map(|given| given.elapsed()),
            ping_age: peer.attached.as_ref().and_then(|attached| Some(attached.pinged?.elapsed())),
            progress: peer.progress,
        };
        self.map.values().map(state).collect()
    }
}

impl Peer {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            queue: PeerQueue::default(),
            file: Arc::default(),
            attached: None,
            refused: None,
            listed: false,
            progress: Progress::default(),
            given: None,
            events_out: 0,
            bytes_out: 0,
        }
    }

    fn is_attached(&self, id: u64) -> bool {
        self.attached.as_ref().is_some_and(|attached| attached.connection.id == id)
    }

    /// Lists a peer with work for the disk; true if it was not listed.
    fn list_in(&mut self, listed: &mut VecDeque<Arc<str>>, shares: Shares) -> bool {
        let wanted = !self.listed && self.queue.wants_disk(shares);
        if wanted {
            self.listed = true;
            listed.push_back(self.name.clone());
        }
        wanted
    }
}

/// Resets a connection at once, discarding the kernel's buffer; the peer receives a reset.
fn reset(connection: &PeerConnection) {
    // Dropping the socket would reset it later, since the task that polls it holds a reference.
    if let Err(error) = rustix::net::connect_unspec(&connection.stream) {
        tracing::warn!(%error, "cannot reset a worker's connection at once; it is reset when it closes");
    }
    let _ = rustix::net::sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO));
    connection.end.notify_one();
}
