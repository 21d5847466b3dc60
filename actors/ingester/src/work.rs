//! The actor Work: takes one item of each stream of an event and sends them to its workers, in the order of the events. A new
//! mapping is a new incarnation.
//!
//! Each message, and each end of a wait, lets it send until something is missing: events ([`EventsAssigned`]), items ([`ItemsIngested`]), or room in
//! a worker's queue.

mod pump;
mod tools;

use orchestrator_supervise::{Answer, Child, ChildCx, Handle, StartCx, StopToken, Vitals};

pub(crate) use self::tools::Tools;
use self::{
    pump::{Pause, Pump, Waits},
    tools::WorkMetrics,
};
use crate::{
    edge::dump::DumpCommand,
    mapping::Mapping,
    messages::{EventsAssigned, ItemsIngested, MappingFinished, ScanStarted},
};

/// Sends events.
pub(crate) struct Work {
    tools: Tools,
    counts: WorkMetrics,
    stop: StopToken,
    /// None: nothing is sent in this mapping.
    pump: Option<Pump>,
}

impl Work {
    pub(crate) fn new(tools: Tools, cx: &StartCx) -> Self {
        Self { tools, counts: WorkMetrics::register(&cx.vitals), stop: cx.stop.clone(), pump: None }
    }

    /// Purges what is left of the former incarnation. None: nothing is sent in this mapping.
    fn begin(&self, mapping: Mapping, vitals: &Vitals) -> Option<Mapping> {
        let begun = mapping.uuid.is_some() && self.tools.begun.get() == mapping.number;
        // Started again within a mapping: what is on its way to workers is of this one, not of the former.
        self.tools.egress.purge(if begun { mapping.finished } else { mapping.former_finished });
        self.tools.streams.iter().for_each(|stream| stream.backlog.clear());
        // Which events have left cannot be known any more, and a frame too many would shift all that follow.
        if begun && !mapping.finished {
            self.counts.broken.add(1);
            let text = "the scan was interrupted: the rest of its events is not sent; set a new mapping";
            tracing::error!(path = vitals.path(), text);
            vitals.note(text);
        }
        (mapping.uuid.is_some() && !begun).then_some(mapping)
    }

    /// Sends events until something is missing that a message, or the end of a wait, brings.
    fn advance(&mut self, cx: &mut ChildCx<'_, Self>) {
        // Events that were to be sent are not waited for: the mapping that they are of is over.
        let Some(pump) = self.pump.as_mut().filter(|_| !self.stop.is_cancelled()) else { return };
        pump.goes_on();
        loop {
            match pump.burst() {
                Pause::Turn => {
                    pump.waits_for(Waits::Turn);
                    return cx.spawn(tokio::task::yield_now(), |work, (), cx| work.advance(cx));
                }
                Pause::Assignment => {
                    if !pump.next_chunk() {
                        return pump.waits_for(Waits::Events);
                    }
                }
                Pause::Item(stream) => return pump.waits_for(Waits::Items(stream)),
                Pause::Room(worker) => {
                    pump.waits_for(Waits::Room);
                    let egress = self.tools.egress.clone();
                    return cx.spawn(async move { egress.room(&worker).await }, |work, (), cx| {
                        work.advance(cx);
                    });
                }
            }
        }
    }
}

impl Child for Work {
    /// Nothing of the former mapping is left when this returns: its queues are purged, what waited for its events is thrown away.
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.counts.held_up.set(0);
        let mapping = self.tools.mappings.get().current;
        let started = ScanStarted { mapping: mapping.number };
        if let Some(mapping) = self.begin(mapping, cx.vitals()) {
            let dump = self.tools.dump.outbox().clone();
            let open = DumpCommand::Open(mapping.dump.clone());
            self.pump = Some(Pump::new(self.tools.clone(), mapping, self.counts.clone()));
            // The dump is told first: it closes the former file, too. Refused only when the process ends.
            cx.spawn(async move { _ = dump.send(open).await }, |work, (), cx| work.advance(cx));
        }
        // Where the ingester refuses it, it asks for another start.
        let _ = self.tools.ingester.tell(started);
    }
}

impl Handle<EventsAssigned> for Work {
    fn handle(
        &mut self,
        EventsAssigned(events): EventsAssigned,
        cx: &mut ChildCx<'_, Self>,
    ) -> Answer<Self, ()> {
        let Some(pump) = &mut self.pump else { return Answer::done() };
        let answer = if pump.takes(events) {
            Answer::done()
        } else {
            let (reply, answer) = Answer::later();
            pump.tells_of_room(reply);
            answer
        };
        if pump.waits() == Waits::Events {
            self.advance(cx);
        }
        answer
    }
}

impl Handle<ItemsIngested> for Work {
    fn handle(&mut self, ingested: ItemsIngested, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        if self.pump.as_ref().is_some_and(|pump| pump.waits() == Waits::Items(ingested.stream)) {
            self.advance(cx);
        }
        Answer::done()
    }
}

impl Handle<MappingFinished> for Work {
    fn handle(&mut self, finished: MappingFinished, _cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        if let Some(pump) = &mut self.pump {
            pump.finishes(finished.mapping);
        }
        Answer::done()
    }
}
