//! The actor Work: takes one item of each stream of an event and sends them to its workers, in the order of the events. A new
//! mapping is a new incarnation.

mod pump;
mod tools;

use orchestrator_supervise::{Child, ChildCx, InboxSlot, StartCx, StopToken, Vitals};

pub(crate) use self::tools::Tools;
use self::{pump::Pump, tools::WorkMetrics};
use crate::{assignment::Assignment, edge::dump::DumpCommand, scan::Mapping};

/// Sends events.
pub(crate) struct Work {
    tools: Tools,
    assignments: InboxSlot<Vec<Assignment>>,
    counts: WorkMetrics,
    stop: StopToken,
}

impl Work {
    pub(crate) fn new(tools: Tools, assignments: InboxSlot<Vec<Assignment>>, cx: &StartCx) -> Self {
        Self { tools, assignments, counts: WorkMetrics::register(&cx.vitals), stop: cx.stop.clone() }
    }

    /// Purges what is left of the former incarnation. None: nothing is sent in this mapping.
    fn begin(&self, vitals: &Vitals) -> Option<Mapping> {
        let (scan, mapping) = (&self.tools.scan, self.tools.scan.mapping());
        let begun = mapping.uuid.is_some() && scan.has_begun(mapping.number);
        // Started again within a mapping: what is on its way to workers is of this one, not of the former.
        self.tools.egress.purge(if begun { mapping.finished } else { mapping.former_finished });
        scan.streams.iter().for_each(|stream| stream.backlog.clear());
        // Which events have left cannot be known any more, and a frame too many would shift all that follow.
        if begun && !mapping.finished {
            self.counts.broken.add(1);
            let text = "the scan was interrupted: the rest of its events is not sent; set a new mapping";
            tracing::error!(path = vitals.path(), text);
            vitals.note(text);
        }
        (mapping.uuid.is_some() && !begun).then_some(mapping)
    }
}

impl Child for Work {
    /// Nothing of the former mapping is left when this returns: its queues are purged, what waited for its events is thrown away.
    fn started(&mut self, cx: &mut ChildCx<'_, Self>) {
        self.counts.held_up.set(0);
        let mapping = self.begin(cx.vitals());
        let (tools, counts) = (self.tools.clone(), self.counts.clone());
        let (assignments, stop) = (self.assignments.clone(), self.stop.clone());
        let pumping = async move {
            let pumping = async {
                let Some(mapping) = mapping else { return stop.cancelled().await };
                // The dump is told first: it closes the former file, too.
                let _ = tools.dump.outbox().send(DumpCommand::Open(mapping.dump.clone())).await;
                Pump::new(tools, mapping, counts).run(assignments.open()).await;
            };
            stop.run_until_cancelled(pumping).await;
            // Events that were to be sent are not waited for: the mapping that they are of is over.
            let mut rest = assignments.open();
            while rest.try_recv().is_some() {}
        };
        cx.spawn(pumping, |_, (), _| {});
    }
}
