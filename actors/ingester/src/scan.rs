//! What the children of one ingester know together: the mapping that is followed, and how far it has come. It outlives all of
//! them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::{backlog::Backlog, updates::FORMER_MAX};

/// Bytes of one stream that may wait for their events, where its source can be slowed. More would only be out of the processor's
/// cache when its turn comes: with 16 MiB an event of 1 KiB cost a quarter more.
const BACKLOG_BYTES: usize = 1 << 20;
/// The same where what there is no room for is lost.
const BACKLOG_BYTES_MISSING: usize = 16 << 20;

/// The mapping that is followed, or was last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its uuid; None before the first.
    pub uuid: Option<Uuid>,
    /// Positions of the streams that it uses.
    pub active: Vec<usize>,
    /// The file that its events are dumped to.
    pub dump: Option<String>,
    /// Number of the mapping in this process, from 1.
    pub number: u64,
    /// The controller has said that it is finished.
    pub finished: bool,
    /// So had the mapping before it been.
    pub former_finished: bool,
}

/// A stream of this ingester.
#[derive(Debug)]
pub struct Stream {
    /// Its name.
    pub name: Arc<str>,
    /// Its items that wait for their events.
    pub backlog: Backlog,
    /// Its source misses what is sent while it is not connected.
    pub misses: bool,
    /// Its source is connected.
    connected: AtomicBool,
    /// Number of the last mapping whose events were all ingested.
    finished: watch::Sender<u64>,
}

/// Shared by all children of one ingester.
#[derive(Debug)]
pub struct Scan {
    /// In the order of the configuration, which is the order of a message's frames.
    pub streams: Vec<Stream>,
    mapping: Mutex<Mapping>,
    former: Mutex<VecDeque<Uuid>>,
    events: AtomicU64,
    /// The mapping whose events have begun to leave.
    begun: AtomicU64,
    /// The mapping that was finished last.
    ended: AtomicU64,
    /// A source was connected.
    connected: Notify,
}

impl Scan {
    /// For these streams, each with whether its source misses what is sent while it is not connected.
    pub fn new<'a>(streams: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let stream = |(name, misses): (&str, bool)| Stream {
            name: name.into(),
            backlog: Backlog::new(if misses { BACKLOG_BYTES_MISSING } else { BACKLOG_BYTES }),
            misses,
            connected: AtomicBool::new(false),
            finished: watch::Sender::default(),
        };
        Self {
            streams: streams.into_iter().map(stream).collect(),
            mapping: Mutex::default(),
            former: Mutex::default(),
            events: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            connected: Notify::new(),
        }
    }

    /// The mapping that is followed.
    pub fn mapping(&self) -> Mapping {
        self.mapping.lock().clone()
    }

    /// The mappings before it, the oldest first: as many as are remembered.
    pub fn former(&self) -> VecDeque<Uuid> {
        self.former.lock().clone()
    }

    /// The next mapping.
    pub fn follow(&self, uuid: Uuid, active: Vec<usize>, dump: Option<String>) {
        let mut mapping = self.mapping.lock();
        let mut former = self.former.lock();
        former.extend(mapping.uuid);
        if former.len() > FORMER_MAX {
            former.pop_front();
        }
        *mapping = Mapping {
            uuid: Some(uuid),
            active,
            dump,
            number: mapping.number + 1,
            finished: false,
            former_finished: mapping.finished,
        };
    }

    /// The controller has said that the mapping is finished.
    pub fn finish(&self) {
        let mut mapping = self.mapping.lock();
        mapping.finished = true;
        self.ended.store(mapping.number, Relaxed);
        for stream in &mapping.active {
            self.streams[*stream].finished.send_replace(mapping.number);
        }
    }

    /// Is mapping `number` finished? What is sent after that would be taken for something of the next one.
    pub fn has_ended(&self, number: u64) -> bool {
        self.ended.load(Relaxed) == number
    }

    /// Waits until all events of mapping `number` were ingested.
    pub async fn finished(&self, stream: usize, number: u64) {
        // The sender lives in self, so waiting cannot fail.
        let _ = self.streams[stream].finished.subscribe().wait_for(|finished| *finished == number).await;
    }

    /// Notes that an event of mapping `number` is about to leave.
    pub fn begin(&self, number: u64) {
        self.begun.store(number, Relaxed);
    }

    /// Has an event of mapping `number` left already?
    pub fn has_begun(&self, number: u64) -> bool {
        self.begun.load(Relaxed) == number
    }

    /// Counts events that were handed over.
    pub fn count_events(&self, many: u64) {
        self.events.fetch_add(many, Relaxed);
    }

    /// Events handed over since the process started, over all mappings.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// Tells whether the source of `stream` is connected.
    pub fn set_connected(&self, stream: usize, connected: bool) {
        self.streams[stream].connected.store(connected, Relaxed);
        self.connected.notify_waiters();
    }

    /// Waits until no active source would miss what is sent from now on.
    pub async fn ready(&self) {
        loop {
            let changed = self.connected.notified();
            let misses = |stream: &usize| {
                let stream = &self.streams[*stream];
                stream.misses && !stream.connected.load(Relaxed)
            };
            if !self.mapping.lock().active.iter().any(misses) {
                return;
            }
            changed.await;
        }
    }
}
