//! The actor Assign: reads which workers the events of a mapping go to, and hands my part of it on. A new mapping is a new
//! incarnation.

use std::sync::Arc;

use orchestrator_supervise::{Child, ChildCx, Outbox, Vitals, metrics};

use crate::{
    assignment::{Assignment, Reader},
    edge::redis::{Place, follow_assigned},
    scan::Scan,
};

/// Events handed on at once.
const CHUNK: usize = 1_024;

metrics! {
    /// Metrics of the assignments.
    struct AssignMetrics {
        /// Events of which a stream of this ingester was assigned.
        assigned: counter("events") as "assigned_events",
        /// Entries of the assignments that could not be read, skipped: their events are not sent.
        invalid: counter("") as "invalid_assignments",
    }
}

/// Reads assignments.
pub(crate) struct Assign {
    scan: Arc<Scan>,
    redis: Place,
    work: Outbox<Vec<Assignment>>,
    metrics: AssignMetrics,
}

impl Assign {
    pub(crate) fn new(scan: Arc<Scan>, redis: Place, work: Outbox<Vec<Assignment>>, vitals: &Vitals) -> Self {
        Self { scan, redis, work, metrics: AssignMetrics::register(vitals) }
    }
}

impl Child for Assign {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let mapping = self.scan.mapping();
        let link = cx.vitals().link("redis", self.redis.endpoint());
        let Some(uuid) = mapping.uuid.filter(|_| !mapping.active.is_empty()) else { return link.idle() };
        let streams = mapping.active.iter().map(|stream| self.scan.streams[*stream].name.clone()).collect();
        let mut reader = Reader::new(streams);
        let (redis, work) = (self.redis.clone(), self.work.clone());
        let (assigned, invalid, vitals) =
            (self.metrics.assigned.clone(), self.metrics.invalid.clone(), cx.vitals().clone());
        let reading = async move {
            let take = async |entry: &[u8]| {
                let events = reader.read(entry)?;
                assigned.add(events.len() as u64);
                hand_on(events, &work).await;
                Ok::<_, serde_json::Error>(())
            };
            follow_assigned(&redis, uuid, link, (vitals, invalid), take).await;
        };
        cx.spawn(reading, |_, (), _| {});
    }
}

/// Waits where the one who takes them is behind: so what waits is bounded.
async fn hand_on(events: Vec<Assignment>, work: &Outbox<Vec<Assignment>>) {
    let mut events = events.into_iter();
    while events.len() > 0 {
        // Refused only when the process ends.
        let _ = work.send(events.by_ref().take(CHUNK).collect()).await;
    }
}
