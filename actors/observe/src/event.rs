//! Event log of the tree: the latest events, with sequence numbers.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{branch::is_in_branch, clock::now_ms, json_size::json_bytes};

/// Number of events kept.
pub const EVENT_LOG_CAPACITY: usize = 4096;

/// Event of one child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Sequence number in this process, from 1, without gaps.
    pub seq: u64,
    /// Wall clock time, milliseconds since 1970.
    pub at_ms: u64,
    /// Path of the child in the tree.
    pub path: String,
    /// Kind of the event, with its details.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kind of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// An incarnation is up.
    Started {
        /// Number of the incarnation, from 1.
        incarnation: u64,
    },
    /// An incarnation ended.
    Exited {
        /// Number of the incarnation.
        incarnation: u64,
        /// Kind and text of the exit.
        reason: String,
        /// Message type or work item in progress at the end, which is lost.
        in_progress: Option<String>,
    },
    /// The supervisor will start the child again.
    RestartScheduled {
        /// Delay until then, milliseconds.
        delay_ms: u64,
    },
    /// The supervisor gave up: it ends with a fault, which its own supervisor handles.
    Escalated {
        /// Reason.
        reason: String,
    },
    /// The child exceeded its restart intensity. The supervisor goes on without it, and tries it again.
    GivenUp {
        /// Reason.
        reason: String,
        /// Delay until the next try, milliseconds.
        delay_ms: u64,
    },
    /// The child did not stop by its deadline.
    StopTimedOut {
        /// Number of waiting messages.
        depth: usize,
        /// Message type or work item in progress.
        in_progress: Option<String>,
    },
    /// An operator paused the child.
    Paused,
    /// An operator resumed the child.
    Resumed,
    /// All waiting messages are dropped instead of handled.
    Purged {
        /// Number of waiting messages.
        depth: usize,
    },
    /// The child's connection is up.
    LinkUp,
    /// The child's connection is down.
    LinkDown {
        /// Reason.
        reason: String,
    },
    /// The peer does not answer. The first reading of the tree after that records it.
    LinkUnanswered {
        /// Reason.
        reason: String,
    },
    /// The child was added to a dynamic supervisor.
    Added,
    /// The child was removed from a dynamic supervisor. A later child with the same path is another one.
    Removed,
    /// An operator or a child gave a command.
    Commanded {
        /// Name of the command, such as `restart`.
        verb: String,
        /// User, as far as known.
        by: String,
        /// Reason, in the operator's words.
        reason: String,
        /// `ok`, or the error.
        outcome: String,
    },
}

impl Event {
    /// Upper bound of its JSON, in bytes.
    pub(crate) fn json_bytes(&self) -> usize {
        let texts: [Option<&str>; 4] = match &self.kind {
            EventKind::Exited { reason, in_progress, .. } => {
                [Some(reason), in_progress.as_deref(), None, None]
            }
            EventKind::Escalated { reason }
            | EventKind::GivenUp { reason, .. }
            | EventKind::LinkDown { reason }
            | EventKind::LinkUnanswered { reason } => [Some(reason), None, None, None],
            EventKind::StopTimedOut { in_progress, .. } => [in_progress.as_deref(), None, None, None],
            EventKind::Commanded { verb, by, reason, outcome } => {
                [Some(verb), Some(by), Some(reason), Some(outcome)]
            }
            EventKind::Started { .. }
            | EventKind::RestartScheduled { .. }
            | EventKind::Paused
            | EventKind::Resumed
            | EventKind::Purged { .. }
            | EventKind::LinkUp
            | EventKind::Added
            | EventKind::Removed => [None; 4],
        };
        // Names of the fields and three numbers of up to 20 digits.
        160 + json_bytes(&self.path) + texts.into_iter().flatten().map(json_bytes).sum::<usize>()
    }
}

impl EventKind {
    /// Names of all kinds in JSON.
    pub const NAMES: [&str; 15] = [
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
        "given_up",
        "link_unanswered",
    ];

    /// Name in JSON.
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
            EventKind::GivenUp { .. } => 13,
            EventKind::LinkUnanswered { .. } => 14,
        };
        Self::NAMES[at]
    }
}

/// Log of the latest [`EVENT_LOG_CAPACITY`] events. Clones share it.
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
    /// Adds an event of the child at `path`.
    pub fn push(&self, path: &str, kind: EventKind) {
        let mut ring = self.ring.lock();
        let seq = ring.next;
        ring.next += 1;
        if ring.events.len() == EVENT_LOG_CAPACITY {
            ring.events.pop_front();
        }
        ring.events.push_back(Event { seq, at_ms: now_ms(), path: path.to_owned(), kind });
        // Under the lock, so that the number never decreases and no waiting reader misses an event.
        self.newest.send_replace(seq);
    }

    /// Events after `seq`, oldest first. Events that are no longer kept leave a gap in `seq`.
    pub fn since(&self, seq: u64) -> Vec<Event> {
        let ring = self.ring.lock();
        let from = ring.events.partition_point(|event| event.seq <= seq);
        ring.events.iter().skip(from).cloned().collect()
    }

    /// Number of the oldest event kept (or of the next event, if there is none), and at most `limit` events
    /// after `seq`, oldest first. The reader missed the events between `seq` and the oldest one.
    pub fn page(&self, seq: u64, limit: usize) -> (u64, Vec<Event>) {
        let ring = self.ring.lock();
        let from = ring.events.partition_point(|event| event.seq <= seq);
        let oldest = ring.events.front().map_or(ring.next, |event| event.seq);
        (oldest, ring.events.iter().skip(from).take(limit).cloned().collect())
    }

    /// Last `limit` events of the child at `path` and its descendants, oldest first.
    pub fn last_of_branch(&self, path: &str, limit: usize) -> Vec<Event> {
        let ring = self.ring.lock();
        let of_branch = ring.events.iter().rev().filter(|event| is_in_branch(&event.path, path));
        let mut last: Vec<_> = of_branch.take(limit).cloned().collect();
        last.reverse();
        last
    }

    /// Number of the newest event, 0 before the first.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Waits until there is an event after `seq`.
    pub async fn wait_after(&self, seq: u64) {
        // Waiting cannot fail: `self` owns the sender.
        let _ = self.newest.subscribe().wait_for(|newest| *newest > seq).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_numbers_have_no_gaps() {
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
    fn names_equal_those_in_json() {
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
            EventKind::Commanded { verb, by, reason: reason.clone(), outcome },
            EventKind::Added,
            EventKind::Removed,
            EventKind::GivenUp { reason: reason.clone(), delay_ms: 1 },
            EventKind::LinkUnanswered { reason },
        ];
        assert_eq!(kinds.len(), EventKind::NAMES.len());
        for (kind, name) in kinds.iter().zip(EventKind::NAMES) {
            let wire = serde_json::to_value(kind).expect("JSON");
            assert_eq!((&wire["event"], kind.name()), (&serde_json::json!(name), name));
        }
    }

    #[test]
    fn the_size_of_an_event_is_an_upper_bound_of_its_json() {
        let text = || "\u{1}\"\\\u{e4}".repeat(100);
        for kind in [
            EventKind::Exited { incarnation: u64::MAX, reason: text(), in_progress: Some(text()) },
            EventKind::RestartScheduled { delay_ms: u64::MAX },
            EventKind::GivenUp { reason: text(), delay_ms: u64::MAX },
            EventKind::StopTimedOut { depth: usize::MAX, in_progress: Some(text()) },
            EventKind::Commanded { verb: text(), by: text(), reason: text(), outcome: text() },
            EventKind::LinkUnanswered { reason: text() },
        ] {
            let event = Event { seq: u64::MAX, at_ms: u64::MAX, path: text(), kind };
            let json = serde_json::to_string(&event).expect("JSON").len();
            assert!((json..json + 160).contains(&event.json_bytes()), "{json} bytes of {event:?}");
        }
    }
}
