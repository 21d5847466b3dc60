//! The hot path: one item of each stream of an event, one message for each of its workers.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use orchestrator_supervise::{Figure, Inbox};

use super::{Counts, Tools};
use crate::{
    alignment::{Alignment, Place},
    assignment::{Assignment, WorkerName},
    config::OnGap,
    edge::{dump::DumpEvent, egress::Message},
    header::{Part, Writer},
    item::Item,
    scan::Mapping,
};

/// Events after which others of the arbiter have their turn: as many small ones as come with one read, so that each worker's go out
/// with one write.
const TURN: usize = 256;
/// Bytes after which they have it, too: a large frame goes out while it is still in the processor's cache.
const TURN_BYTES: usize = 512 << 10;

/// Sends the events of one mapping.
pub(super) struct Pump {
    tools: Tools,
    mapping: Mapping,
    counts: Counts,
    headers: Writer,
    /// Names of the active streams.
    names: Vec<Arc<str>>,
    alignments: Vec<Alignment>,
    since_turn: usize,
    bytes_since_turn: usize,
}

impl Pump {
    pub(super) fn new(tools: Tools, mapping: Mapping, counts: Counts) -> Self {
        let alignments = mapping.active.iter().map(|_| Alignment::default()).collect();
        let name = |stream: &usize| tools.scan.streams[*stream].name.clone();
        let names = mapping.active.iter().map(name).collect();
        Self {
            tools,
            mapping,
            counts,
            headers: Writer::default(),
            names,
            alignments,
            since_turn: 0,
            bytes_since_turn: 0,
        }
    }

    /// Runs as long as the mapping.
    pub(super) async fn run(mut self, mut assignments: Inbox<Vec<Assignment>>) {
        loop {
            let batch = match assignments.try_recv() {
                Some(batch) => batch,
                None => {
                    let waited = Waited::since(&self.counts.wait_assignment);
                    let Some(batch) = assignments.recv().await else { return };
                    drop(waited);
                    batch
                }
            };
            for assignment in batch {
                self.event(assignment).await;
            }
        }
    }

    async fn event(&mut self, assignment: Assignment) {
        if let [(stream, workers)] = &*assignment.streams {
            let item = self.item(*stream).await;
            if self.tools.scan.has_ended(self.mapping.number) {
                return;
            }
            let created_at = self.begin(&assignment, std::slice::from_ref(&item));
            self.send_alone(assignment.event, *stream, item, workers, created_at).await;
        } else {
            let mut items = Vec::with_capacity(assignment.streams.len());
            for (stream, _) in &assignment.streams {
                items.push(self.item(*stream).await);
            }
            if self.tools.scan.has_ended(self.mapping.number) {
                return;
            }
            let created_at = self.begin(&assignment, &items);
            self.send(&assignment, items, created_at).await;
        }
        self.tools.scan.count_event();
        self.counts.events.add(1);
        self.since_turn += 1;
        if self.since_turn >= TURN || self.bytes_since_turn >= TURN_BYTES {
            (self.since_turn, self.bytes_since_turn) = (0, 0);
            tokio::task::yield_now().await;
        }
    }

    /// From here on the event counts as begun.
    fn begin(&self, assignment: &Assignment, items: &[Item]) -> Timestamp {
        self.tools.scan.begin(self.mapping.number);
        let created_at = Timestamp::now();
        self.dump(assignment, items, created_at);
        created_at
    }

    /// The item of an active stream that belongs to this event.
    async fn item(&mut self, stream: usize) -> Item {
        loop {
            let item = self.next(stream).await;
            if self.tools.on_gap == OnGap::Count {
                return item;
            }
            match self.alignments[stream].place(item) {
                Place::Here(item) => return item,
                Place::Hole(item) => {
                    self.counts.holes.add(1);
                    return item;
                }
                Place::Late => self.counts.late.add(1),
            }
        }
    }

    async fn next(&mut self, stream: usize) -> Item {
        if let Some(kept) = self.alignments[stream].kept() {
            return kept;
        }
        let backlog = &self.tools.scan.streams[self.mapping.active[stream]].backlog;
        match backlog.try_pop() {
            Some(item) => item,
            None => {
                let _waited = Waited::since(&self.counts.wait_source);
                backlog.pop().await
            }
        }
    }

    fn dump(&self, assignment: &Assignment, items: &[Item], created_at: Timestamp) {
        if self.mapping.dump.is_none() {
            return;
        }
        let named = |((stream, _), item): (&(usize, Vec<WorkerName>), &Item)| {
            (self.names[*stream].clone(), item.clone())
        };
        let items = assignment.streams.iter().zip(items).map(named).collect();
        if !self.tools.dump.offer(DumpEvent { event: assignment.event, items, created_at }) {
            self.counts.not_dumped.add(1);
        }
    }

    /// Sends an event of one stream, as most are: nothing has to be sorted, and the frames move on as they are.
    async fn send_alone(
        &mut self,
        event: u64,
        stream: usize,
        item: Item,
        workers: &[WorkerName],
        created_at: Timestamp,
    ) {
        if workers.is_empty() {
            return;
        }
        let part = Part { stream: &self.names[stream], typ: &item.typ, length: item.frames.len() };
        let header = self.headers.write(event, &[part], created_at);
        let message = Arc::new(Message { header, frames: item.frames });
        self.count_bytes(&message, workers.len());
        for worker in workers {
            self.hand_over(worker, &message).await;
        }
    }

    async fn send(&mut self, assignment: &Assignment, items: Vec<Item>, created_at: Timestamp) {
        for (streams, workers) in groups(assignment) {
            let part = |at: &usize| {
                let (item, stream) = (&items[*at], assignment.streams[*at].0);
                Part { stream: &self.names[stream], typ: &item.typ, length: item.frames.len() }
            };
            let parts: Vec<_> = streams.iter().map(part).collect();
            let header = self.headers.write(assignment.event, &parts, created_at);
            let frames = streams.iter().flat_map(|at| items[*at].frames.iter().cloned()).collect();
            let message = Arc::new(Message { header, frames });
            self.count_bytes(&message, workers.len());
            for worker in workers {
                self.hand_over(worker, &message).await;
            }
        }
    }

    fn count_bytes(&mut self, message: &Message, workers: usize) {
        let bytes = message.wire_bytes();
        self.counts.bytes.add((bytes * workers) as u64);
        self.bytes_since_turn += bytes;
    }

    async fn hand_over(&self, worker: &str, message: &Arc<Message>) {
        while self.tools.egress.try_send(worker, message).is_err() {
            let _waited = Waited::since(&self.counts.wait_egress);
            self.counts.held_up.set(1);
            self.tools.egress.room(worker).await;
            self.counts.held_up.set(0);
        }
    }
}

/// Workers that get the same streams of an event share one message; the streams are positions in the assignment.
fn groups(assignment: &Assignment) -> Vec<(Vec<usize>, Vec<&str>)> {
    let mut of: Vec<(&str, Vec<usize>)> = Vec::new();
    for (at, (_, workers)) in assignment.streams.iter().enumerate() {
        for worker in workers {
            match of.iter_mut().find(|(name, _)| *name == &**worker) {
                Some((_, streams)) => streams.push(at),
                None => of.push((worker, vec![at])),
            }
        }
    }
    let mut groups: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
    for (worker, streams) in of {
        match groups.iter_mut().find(|(same, _)| *same == streams) {
            Some((_, workers)) => workers.push(worker),
            None => groups.push((streams, vec![worker])),
        }
    }
    groups
}

/// Adds the time that something was waited for, whether it came or not.
struct Waited<'a> {
    figure: &'a Figure,
    since: Instant,
}

impl<'a> Waited<'a> {
    fn since(figure: &'a Figure) -> Self {
        Self { figure, since: Instant::now() }
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        self.figure.add(u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<WorkerName> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn each_worker_is_in_one_group_with_all_its_streams() {
        let streams = vec![(0, names(&["a", "b"])), (2, names(&["b", "c", "a"])), (3, names(&[]))];
        let assignment = Assignment { event: 1, streams };
        assert_eq!(groups(&assignment), [(vec![0, 1], vec!["a", "b"]), (vec![1], vec!["c"])]);
        let alone = Assignment { event: 1, streams: vec![(0, names(&["a", "b"]))] };
        assert_eq!(groups(&alone), [(vec![0], vec!["a", "b"])]);
        let nobody = Assignment { event: 1, streams: vec![(0, names(&[]))] };
        assert_eq!(groups(&nobody), []);
    }
}
