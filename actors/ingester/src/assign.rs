//! The actor Assign: reads a mapping's `assigned` stream and forwards the events of this ingester's
//! streams to Work. Each mapping is a new incarnation.

use std::{sync::Arc, time::Duration};

use orchestrator_observe::metrics;
use orchestrator_subsystem::DETAIL;
use orchestrator_supervise::{
    AskError, Child, ChildCx, DurableView, Fault, Handle, Handled, Outbox, Recipient, Vitals,
};

use crate::{
    assignment::{Assignment, Reader},
    edge::redis::{LastEntry, RedisTarget, follow_assigned},
    mapping::{Mapping, Mappings},
    messages::{EntriesRead, EventsAssigned, InvalidEntry, StreamsAssigned},
    stream_queue::StreamQueues,
};

/// Events in one message to Work.
const CHUNK_EVENTS: usize = 1_024;
/// No time-out: Work may wait for frames as long as it takes.
const FORWARD_TIMEOUT: Duration = Duration::MAX;

metrics! {
    /// Metrics of the assignments.
    struct AssignMetrics {
        /// Events that include a stream of this ingester and were assigned to workers.
        assigned: counter("events") as "assigned_events",
        /// Assigned events of the current mapping.
        of_mapping: gauge("events") as "mapping_assigned",
        /// Assignment entries that could not be read and were skipped; their events are not sent.
        invalid: counter("") as "invalid_assignments",
    }
}

/// Reads assignments.
pub(crate) struct Assign {
    streams: StreamQueues,
    mappings: DurableView<Mappings>,
    redis: (RedisTarget, LastEntry),
    work: Recipient<EventsAssigned>,
    processes: Arc<[ClassEvents]>,
    /// None if the mapping uses no stream of this ingester.
    reader: Option<Reader>,
    metrics: AssignMetrics,
}

impl Assign {
    pub(crate) fn new(
        streams: StreamQueues,
        mappings: DurableView<Mappings>,
        redis: (RedisTarget, LastEntry),
        work: Recipient<EventsAssigned>,
        processes: Arc<[ClassEvents]>,
        vitals: &Vitals,
    ) -> Self {
        Self {
            streams,
            mappings,
            redis,
            work,
            processes,
            reader: None,
            metrics: AssignMetrics::register(vitals),
        }
    }
}

impl Child for Assign {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.metrics.of_mapping.set(0);
        self.redis.1.clear();
        let mapping = self.mappings.get().current;
        let link = cx.vitals().link("redis", self.redis.0.endpoint());
        let Some(uuid) = mapping.uuid.filter(|_| !mapping.active.is_empty()) else { return link.idle() };
        let streams = mapping.active.iter().map(|stream| self.streams[*stream].name.clone()).collect();
        self.reader = Some(Reader::new(streams));
        let (redis, myself) = (self.redis.clone(), cx.mailbox().recipient());
        let skipped = (cx.vitals().clone(), self.metrics.invalid.clone());
        cx.spawn(async move { follow_assigned(&redis, uuid, link, skipped, &myself).await }, |_, (), _| {});
    }
}

impl Handle<EntriesRead> for Assign {
    fn handle(
        &mut self,
        EntriesRead(entries): EntriesRead,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Vec<InvalidEntry>> {
        let Some(reader) = &mut self.reader else { return Handled::now(Vec::new()) };
        let (mut events, mut invalid) = (Vec::new(), Vec::new());
        for (at, entry) in entries.into_iter().enumerate() {
            match reader.read(&entry) {
                Ok(read) if events.is_empty() => events = read,
                Ok(read) => events.extend(read),
                Err(error) => invalid.push(InvalidEntry { at, entry, error }),
            }
        }
        self.metrics.assigned.add(events.len() as u64);
        self.metrics.of_mapping.add(events.len() as u64);
        if tracing::enabled!(target: DETAIL, tracing::Level::DEBUG) {
            let mapping = self.mappings.get().current.uuid;
            for Assignment { event, streams } in &events {
                tracing::debug!(target: DETAIL, mapping = mapping.as_ref().map(tracing::field::display), event, ?streams, "an event is assigned");
            }
        }
        let (reply, answer) = Handled::later();
        let forwarding = Forwarding {
            mapping: self.mappings.get().current,
            work: self.work.clone(),
            processes: self.processes.clone(),
        };
        cx.spawn(forwarding.forward(events), |_, forwarded, cx| match forwarded {
            Ok(()) => _ = reply.send(invalid),
            // Work has ended; the supervisor restarts Assign with it.
            Err(AskError::Lost) => {}
            Err(error) => cx.fail(Fault::from_error(&error)),
        });
        answer
    }
}

/// Recipients of the events of one mapping.
struct Forwarding {
    mapping: Mapping,
    work: Recipient<EventsAssigned>,
    processes: Arc<[ClassEvents]>,
}

/// Recipient of the events of one ingester class.
pub(crate) struct ClassEvents {
    /// Streams of the class: bit P stands for the stream at position P of the configuration.
    pub(crate) streams: u64,
    pub(crate) process: Outbox<StreamsAssigned>,
}

impl Forwarding {
    /// Sends the events in chunks and waits while a recipient has no room.
    async fn forward(self, events: Vec<Assignment>) -> Result<(), AskError> {
        let mut events = events.into_iter();
        while events.len() > 0 {
            let chunk: Vec<_> = events.by_ref().take(CHUNK_EVENTS).collect();
            for class in &*self.processes {
                let events = self.streams(&chunk, class.streams);
                // A class without a part in the mapping may have no process that takes them.
                if !events.is_empty() {
                    let assigned = StreamsAssigned { mapping: self.mapping.number, events };
                    // It fails only at the end of the program.
                    let _ = class.process.send(assigned).await;
                }
            }
            self.work.ask(EventsAssigned(chunk), FORWARD_TIMEOUT).await?;
        }
        Ok(())
    }

    /// Those `streams` that each event has, as bits; events with none are left out.
    fn streams(&self, chunk: &[Assignment], streams: u64) -> Vec<u64> {
        let bit = |at: usize| self.mapping.active.get(at).map_or(0, |position| 1 << position);
        let mask = |event: &Assignment| event.streams.iter().fold(0, |mask, (at, _)| mask | bit(*at));
        chunk.iter().map(|event| mask(event) & streams).filter(|found| *found != 0).collect()
    }
}
