//! What happened in the tree, in order: a bounded ring with sequence numbers.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Events kept for late readers.
pub const EVENT_LOG_CAPACITY: usize = 4096;

/// One thing that happened to one child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Position in the history of this process, from 1, without gaps.
    pub seq: u64,
    /// Wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// Tree path of the child, e.g. `orchestrator/queue/fetcher_watcher`.
    pub path: String,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What can happen to a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// An incarnation runs.
    Started {
        /// Its number, from 1.
        incarnation: u64,
    },
    /// An incarnation ended.
    Exited {
        /// Its number.
        incarnation: u64,
        /// Word and text of the exit.
        reason: String,
        /// Type of the message in progress when it ended, if any: that message is lost.
        in_progress: Option<String>,
    },
    /// The supervisor will start the child again.
    RestartScheduled {
        /// Delay until then, milliseconds.
        delay_ms: u64,
    },
    /// The supervisor gave up and hands the trouble to its parent.
    Escalated {
        /// Why.
        reason: String,
    },
    /// A stop deadline passed; what the child had not handled.
    StopTimedOut {
        /// Messages that were waiting.
        depth: usize,
        /// Type of the message in progress.
        in_progress: Option<String>,
    },
    /// Intake was stopped by an operator.
    Paused,
    /// Intake goes on.
    Resumed,
    /// Waiting messages were marked to be dropped.
    Purged {
        /// How many waited.
        depth: usize,
    },
    /// An edge reached its peer.
    LinkUp,
    /// An edge lost its peer.
    LinkDown {
        /// Why.
        reason: String,
    },
    /// The child was declared at run time.
    Added,
    /// The child left the tree; what is added under its path later is another one.
    Removed,
    /// An operator asked for something.
    Commanded {
        /// restart, stop, start, pause or resume.
        verb: String,
        /// Who asked, as far as known.
        by: String,
        /// Why, in the operator's words.
        reason: String,
        /// `ok`, or why it was refused.
        outcome: String,
    },
}

impl EventKind {
    /// The names of all kinds, as they go over the wire.
    pub const NAMES: [&str; 13] = [
        "started",
        "exited",
        "restart_scheduled",
        "escalated",
        "stop_timed_out",
        "paused",
        "resumed",
        "purged",
        "link_up",
        "link_down",
        "commanded",
        "added",
        "removed",
    ];

    /// Its name, as it goes over the wire.
    pub fn name(&self) -> &'static str {
        let at = match self {
            EventKind::Started { .. } => 0,
            EventKind::Exited { .. } => 1,
            EventKind::RestartScheduled { .. } => 2,
            EventKind::Escalated { .. } => 3,
            EventKind::StopTimedOut { .. } => 4,
            EventKind::Paused => 5,
            EventKind::Resumed => 6,
            EventKind::Purged { .. } => 7,
            EventKind::LinkUp => 8,
            EventKind::LinkDown { .. } => 9,
            EventKind::Commanded { .. } => 10,
            EventKind::Added => 11,
            EventKind::Removed => 12,
        };
        Self::NAMES[at]
    }
}

/// The ring. Cloning shares it.
#[derive(Debug, Clone)]
pub struct EventLog {
    ring: Arc<Mutex<Ring>>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Event>,
    next: u64,
}

impl Default for EventLog {
    fn default() -> Self {
        let ring = Ring { events: VecDeque::new(), next: 1 };
        Self { ring: Arc::new(Mutex::new(ring)), newest: watch::Sender::new(0) }
    }
}

impl EventLog {
    pub(crate) fn push(&self, path: &str, kind: EventKind) {
        let mut ring = self.ring.lock();
        let seq = ring.next;
        ring.next += 1;
        if ring.events.len() == EVENT_LOG_CAPACITY {
            ring.events.pop_front();
        }
        ring.events.push_back(Event { seq, at_ms: now_ms(), path: path.to_owned(), kind });
        // Under the lock: else a slower thread could set the number back and a waiter would miss the newer event.
        self.newest.send_replace(seq);
    }

    /// Events after `seq`, oldest first; those that left the ring are missing, which the gap in `seq` shows.
    pub fn since(&self, seq: u64) -> Vec<Event> {
        let ring = self.ring.lock();
        let from = ring.events.partition_point(|event| event.seq <= seq);
        ring.events.iter().skip(from).cloned().collect()
    }

    /// At most `limit` events after `seq`, oldest first, and the number of the oldest event that is kept (of the next
    /// one, if there is none). What a reader missed lies between `seq` and that number.
    pub fn page(&self, seq: u64, limit: usize) -> (u64, Vec<Event>) {
        let ring = self.ring.lock();
        let from = ring.events.partition_point(|event| event.seq <= seq);
        let oldest = ring.events.front().map_or(ring.next, |event| event.seq);
        (oldest, ring.events.iter().skip(from).take(limit).cloned().collect())
    }

    /// Number of the newest event, 0 before the first.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Waits until there is an event after `seq`.
    pub async fn wait_after(&self, seq: u64) {
        // An error would mean that the log is gone, but `self` holds it.
        let _ = self.newest.subscribe().wait_for(|newest| *newest > seq).await;
    }
}

/// Wall clock, milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_and_numbers_have_no_gaps() {
        let log = EventLog::default();
        for _ in 0..EVENT_LOG_CAPACITY + 10 {
            log.push("a", EventKind::Paused);
        }
        let events = log.since(0);
        assert_eq!(events.len(), EVENT_LOG_CAPACITY);
        assert_eq!(events[0].seq, 11);
        assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
        assert_eq!(log.since(log.newest()), vec![]);
        let (oldest, page) = log.page(5, 3);
        assert_eq!((oldest, page.iter().map(|event| event.seq).collect()), (11, vec![11, 12, 13]));
        assert_eq!(log.page(log.newest(), 3), (11, vec![]));
        assert_eq!(EventLog::default().page(0, 3), (1, vec![]));
    }

    #[test]
    fn names_are_those_of_the_wire() {
        let (reason, verb, by, outcome) = (String::new(), String::new(), String::new(), String::new());
        let kinds = [
            EventKind::Started { incarnation: 1 },
            EventKind::Exited { incarnation: 1, reason: reason.clone(), in_progress: None },
            EventKind::RestartScheduled { delay_ms: 1 },
            EventKind::Escalated { reason: reason.clone() },
            EventKind::StopTimedOut { depth: 1, in_progress: None },
            EventKind::Paused,
            EventKind::Resumed,
            EventKind::Purged { depth: 1 },
            EventKind::LinkUp,
            EventKind::LinkDown { reason: reason.clone() },
            EventKind::Commanded { verb, by, reason, outcome },
        ];
        for (kind, name) in kinds.iter().zip(EventKind::NAMES) {
            let wire = serde_json::to_value(kind).expect("JSON");
            assert_eq!((&wire["event"], kind.name()), (&serde_json::json!(name), name));
        }
    }
}
