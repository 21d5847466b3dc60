//! The actor Work: combines one item of each stream of an event and sends them to the event's
//! workers, in the order of events. Each mapping is a new incarnation.
//!
//! Sending runs until it lacks events ([`EventsAssigned`]), items ([`ItemsIngested`]) or room in a
//! worker's queue. The message or wake-up that brings it resumes sending.

mod active_stream;
mod context;
mod locate;
mod sender;

use orchestrator_supervise::{Child, ChildCx, Handle, Handled, StartCx, StopToken, Vitals};

pub(crate) use self::context::WorkContext;
use self::{
    context::WorkMetrics,
    sender::{EventSender, Pause},
};
use crate::{
    edge::dump::DumpCommand,
    mapping::Mapping,
    messages::{EventsAssigned, ItemsIngested, LocateEvent, MappingFinished, ScanStarted},
    sender_state::{SenderState, WaitCondition},
};

/// Sends events.
pub(crate) struct Work {
    context: WorkContext,
    counts: WorkMetrics,
    stop: StopToken,
    /// None if this mapping sends nothing.
    sender: Option<EventSender>,
}

impl Work {
    pub(crate) fn new(context: WorkContext, cx: &StartCx) -> Self {
        Self { context, counts: WorkMetrics::register(&cx.vitals), stop: cx.stop.clone(), sender: None }
    }

    /// Purges the state of the former incarnation. Returns None if this mapping sends nothing.
    fn begin(&self, mapping: Mapping, vitals: &Vitals) -> Option<Mapping> {
        let begun = mapping.uuid.is_some() && self.context.begun.get() == mapping.number;
        // After a restart within a mapping, queued messages belong to this mapping.
        self.context.egress.purge(if begun { mapping.finished } else { mapping.former_finished });
        self.context.streams.iter().for_each(|stream| stream.backlog.clear());
        // After a restart it is unknown which events were sent. Sending one again would shift all later
        // frames, so the scan is dropped.
        if begun && !mapping.finished {
            self.counts.interrupted.add(1);
            self.context.interrupted.update(|interrupted| *interrupted = mapping.number);
            let text = "the scan was interrupted: its remaining events are not sent; set a new mapping";
            tracing::error!(path = vitals.path(), text);
            vitals.note(text);
        }
        (mapping.uuid.is_some() && !begun).then_some(mapping)
    }

    /// Sends events until a message or a wake-up is needed.
    fn advance(&mut self, cx: &mut ChildCx<'_, Self>) {
        // At a stop the mapping is over: its remaining events are not sent.
        let Some(sender) = self.sender.as_mut().filter(|_| !self.stop.is_cancelled()) else { return };
        sender.resume();
        loop {
            match sender.burst() {
                Pause::Yield => {
                    sender.wait_for(WaitCondition::Yield);
                    return cx.spawn(tokio::task::yield_now(), |work, (), cx| work.advance(cx));
                }
                Pause::Assignment => {
                    if !sender.next_chunk() {
                        return sender.wait_for(WaitCondition::Events);
                    }
                }
                Pause::Item(stream) => return sender.wait_for(WaitCondition::Items(stream)),
                Pause::Dump(event) => {
                    sender.wait_for(WaitCondition::Dump);
                    let dump = self.context.dump.clone();
                    return cx.spawn(async move { dump.queue(event).await }, |work, (), cx| work.advance(cx));
                }
                Pause::Room(worker) => {
                    sender.wait_for(WaitCondition::Room);
                    let egress = self.context.egress.clone();
                    return cx.spawn(async move { egress.wait_for_room(&worker).await }, |work, (), cx| {
                        work.advance(cx);
                    });
                }
            }
        }
    }
}

impl Child for Work {
    /// Purges all queues of the former mapping before it reports the start.
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.counts.blocked.set(0);
        self.counts.of_mapping.set(0);
        let mapping = self.context.mappings.get().current;
        let started = ScanStarted { mapping: mapping.number };
        if let Some(mapping) = self.begin(mapping, cx.vitals()) {
            let dump = self.context.dump.outbox().clone();
            let open = DumpCommand::Open(mapping.dump.clone());
            self.sender = Some(EventSender::new(self.context.clone(), mapping, self.counts.clone()));
            // Opening the new dump also closes the former one. It fails only at the end of the
            // process.
            cx.spawn(async move { _ = dump.send(open).await }, |work, (), cx| work.advance(cx));
        }
        // If the mailbox is full, Ingester requests the scan again after a time-out.
        let _ = self.context.ingester.tell(started);
    }
}

impl Handle<EventsAssigned> for Work {
    fn handle(
        &mut self,
        EventsAssigned(events): EventsAssigned,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, ()> {
        let Some(sender) = &mut self.sender else { return Handled::done() };
        self.context.egress.record_assigned(&events);
        let answer = if sender.push_events(events) {
            Handled::done()
        } else {
            let (reply, answer) = Handled::later();
            sender.reply_when_room(reply);
            answer
        };
        if sender.condition() == WaitCondition::Events {
            self.advance(cx);
        }
        answer
    }
}

impl Handle<ItemsIngested> for Work {
    fn handle(&mut self, ingested: ItemsIngested, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        if self
            .sender
            .as_ref()
            .is_some_and(|sender| sender.condition() == WaitCondition::Items(ingested.stream))
        {
            self.advance(cx);
        }
        Handled::done()
    }
}

impl Handle<MappingFinished> for Work {
    fn handle(&mut self, finished: MappingFinished, _cx: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        if let Some(sender) = &mut self.sender {
            sender.finish(finished.mapping);
        }
        Handled::done()
    }
}

impl Handle<LocateEvent> for Work {
    fn handle(
        &mut self,
        LocateEvent(event): LocateEvent,
        _cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Option<SenderState>> {
        Handled::now(self.sender.as_ref().map(|sender| sender.state(event)))
    }
}
