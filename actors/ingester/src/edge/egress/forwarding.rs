//! Histograms of the time from the receipt of an event's items to the hand-over of its message to a
//! worker's socket.

use std::time::{Duration, Instant};

use orchestrator_observe::Timing;
use orchestrator_supervise::Vitals;

use super::queue::Entry;

const HELP: &str = "Time from the receipt of an event's last item to the hand-over of its message to a worker's socket; \
                    of messages via disk, from their queueing.";

/// Histograms by the part of the queue that held the message.
#[derive(Debug)]
pub(super) struct ForwardingTimes {
    /// Creation of the egress, from which the times of entries count.
    created: Instant,
    memory: Timing,
    disk: Timing,
}

impl ForwardingTimes {
    pub(super) fn register(vitals: &Vitals, created: Instant) -> Self {
        let timing = |via| vitals.register_timing("forwarding", HELP, ("via", via));
        Self { created, memory: timing("memory"), disk: timing("disk") }
    }

    pub(super) fn record(&self, entry: &Entry, now: Instant) {
        match entry.received {
            Some(received) => self.memory.record(now.saturating_duration_since(received)),
            None => {
                let age = now.saturating_duration_since(self.created);
                self.disk.record(age.saturating_sub(Duration::from_millis(entry.at_ms)));
            }
        }
    }
}
