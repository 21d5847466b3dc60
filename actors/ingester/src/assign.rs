//! The actor Assign: finds in the entries of a mapping's `assigned` stream which workers the events go to, and hands the part of this ingester
//! on to Work. A new mapping is a new incarnation.

use std::time::Duration;

use orchestrator_supervise::{
    Answer, AskError, Child, ChildCx, DurableView, Fault, Handle, Recipient, Vitals, metrics,
};

use crate::{
    assignment::{Assignment, Reader},
    edge::redis::{Place, follow_assigned},
    mapping::Mappings,
    messages::{EntriesRead, EventsAssigned, InvalidEntry},
    stream_queue::StreamQueues,
};

/// Events handed on at once.
const CHUNK: usize = 1_024;
/// Time-out for Work to have room for more events: as long as their frames take to come.
const ROOM: Duration = Duration::MAX;

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
    streams: StreamQueues,
    mappings: DurableView<Mappings>,
    redis: Place,
    work: Recipient<EventsAssigned>,
    /// None: nothing of the mapping is assigned to this ingester.
    reader: Option<Reader>,
    metrics: AssignMetrics,
}

impl Assign {
    pub(crate) fn new(
        streams: StreamQueues,
        mappings: DurableView<Mappings>,
        redis: Place,
        work: Recipient<EventsAssigned>,
        vitals: &Vitals,
    ) -> Self {
        Self { streams, mappings, redis, work, reader: None, metrics: AssignMetrics::register(vitals) }
    }
}

impl Child for Assign {
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        let mapping = self.mappings.get().current;
        let link = cx.vitals().link("redis", self.redis.endpoint());
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
    ) -> Answer<Self, Vec<InvalidEntry>> {
        let Some(reader) = &mut self.reader else { return Answer::now(Vec::new()) };
        let (mut events, mut invalid) = (Vec::new(), Vec::new());
        for (at, entry) in entries.into_iter().enumerate() {
            match reader.read(&entry) {
                Ok(read) if events.is_empty() => events = read,
                Ok(read) => events.extend(read),
                Err(error) => invalid.push(InvalidEntry { at, entry, error }),
            }
        }
        self.metrics.assigned.add(events.len() as u64);
        let (reply, answer) = Answer::later();
        cx.spawn(hand_on(events, self.work.clone()), |_, handed_on, cx| match handed_on {
            Ok(()) => _ = reply.send(invalid),
            // Work has ended, and Assign is started again with it.
            Err(AskError::Lost) => {}
            Err(error) => cx.fail(Fault::from_error(&error)),
        });
        answer
    }
}

/// Waits where Work is behind: so what waits is bounded.
async fn hand_on(events: Vec<Assignment>, work: Recipient<EventsAssigned>) -> Result<(), AskError> {
    let mut events = events.into_iter();
    while events.len() > 0 {
        work.ask(EventsAssigned(events.by_ref().take(CHUNK).collect()), ROOM).await?;
    }
    Ok(())
}
