//! The hot path: one item of each stream of an event, one message for each of its workers.

use std::{collections::VecDeque, sync::Arc, time::Instant, vec};

use jiff::Timestamp;
use orchestrator_supervise::Reply;

use super::tools::{Tools, WorkMetrics};
use crate::{
    alignment::{Alignment, Place},
    assignment::{Addressees, Assignment, WorkerName},
    config::OnGap,
    edge::{
        dump::DumpEvent,
        egress::{Burst, Message},
    },
    header::{Part, Writer},
    item::Item,
    mapping::Mapping,
};

/// Events after which others of the arbiter have their turn: as many small ones as come with one read, so that each worker's go out
/// with one write.
const TURN: u64 = 256;
/// Bytes after which they have it, too: a large frame goes out while it is still in the processor's cache.
const TURN_BYTES: usize = 512 << 10;

/// Chunks of assigned events that wait.
const CHUNKS: usize = 64;

/// Sends the events of one mapping.
pub(super) struct Pump {
    tools: Tools,
    mapping: Mapping,
    counts: WorkMetrics,
    headers: Writer,
    /// The active streams.
    lanes: Vec<Lane>,
    /// The next events.
    assignments: vec::IntoIter<Assignment>,
    /// The events behind them.
    ahead: VecDeque<Vec<Assignment>>,
    /// Replies to those who wait until there is room for more.
    full: Vec<Reply<()>>,
    /// An event has left.
    begun: bool,
    /// No event is sent any more.
    finished: bool,
    waits: (Waits, Instant),
    /// Items of the next event, as far as they have come.
    gathered: Vec<Item>,
    /// What its workers have no room for yet.
    held: VecDeque<(WorkerName, Arc<Message>)>,
    sent: Sent,
}

/// An active stream.
struct Lane {
    name: Arc<str>,
    /// Which of all streams it is.
    position: usize,
    alignment: Alignment,
    /// Taken, and not yet of an event.
    taken: VecDeque<Item>,
}

/// The condition on which the next burst waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// The dump to be told of the mapping, or other children of the arbiter to have their turn.
    Turn,
    /// Events to be assigned.
    Events,
    /// Items of the stream at this position.
    Items(usize),
    /// Room in a worker's queue.
    Room,
}

/// The reason why a burst has come to an end.
pub(super) enum Pause {
    /// Others of the arbiter have their turn.
    Turn,
    /// No event is known that is next.
    Assignment,
    /// The next event's item of the stream at this position has not come.
    Item(usize),
    /// This worker has no room.
    Room(WorkerName),
}

/// What was sent since others had their turn.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    events: u64,
    /// Each message once.
    bytes: usize,
    /// Each message as often as it goes out.
    bytes_out: usize,
}

impl Pump {
    pub(super) fn new(tools: Tools, mapping: Mapping, counts: WorkMetrics) -> Self {
        let lane = |position: &usize| Lane {
            name: tools.streams[*position].name.clone(),
            position: *position,
            alignment: Alignment::default(),
            taken: VecDeque::new(),
        };
        let lanes = mapping.active.iter().map(lane).collect();
        let finished = mapping.finished;
        Self {
            tools,
            mapping,
            counts,
            headers: Writer::default(),
            lanes,
            assignments: Vec::new().into_iter(),
            ahead: VecDeque::new(),
            full: Vec::new(),
            begun: false,
            finished,
            waits: (Waits::Turn, Instant::now()),
            gathered: Vec::new(),
            held: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    /// Takes the next events; false if no more are to come before a reply to [`Pump::tells_of_room`].
    pub(super) fn takes(&mut self, events: Vec<Assignment>) -> bool {
        self.ahead.push_back(events);
        self.ahead.len() < CHUNKS
    }

    /// Answers `reply` when there is room for more events.
    pub(super) fn tells_of_room(&mut self, reply: Reply<()>) {
        self.full.push(reply);
    }

    /// Begins with the next chunk of events, if one is there.
    pub(super) fn next_chunk(&mut self) -> bool {
        let Some(events) = self.ahead.pop_front() else { return false };
        self.assignments = events.into_iter();
        // Whoever does not wait any more is about to be restarted.
        self.full.drain(..).for_each(|reply| _ = reply.send(()));
        true
    }

    /// Sends no further event of mapping `number`: it would be taken for one of the next mapping.
    pub(super) fn finishes(&mut self, number: u64) {
        self.finished |= number == self.mapping.number;
    }

    /// The condition on which the next burst waits.
    pub(super) fn waits(&self) -> Waits {
        self.waits.0
    }

    /// Notes on which condition the next burst waits.
    pub(super) fn waits_for(&mut self, condition: Waits) {
        self.counts.held_up.set(u64::from(condition == Waits::Room));
        self.waits = (condition, Instant::now());
    }

    /// Ends a wait, whose time is counted.
    pub(super) fn goes_on(&mut self) {
        let (condition, since) = self.waits;
        let metric = match condition {
            Waits::Turn => return self.sent = Sent::default(),
            Waits::Events => &self.counts.wait_assignment,
            Waits::Items(_) => &self.counts.wait_source,
            Waits::Room => &self.counts.wait_egress,
        };
        self.counts.held_up.set(0);
        metric.add(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX));
    }

    /// Sends events until something is missing.
    pub(super) fn burst(&mut self) -> Pause {
        let egress = self.tools.egress.clone();
        let mut egress = egress.burst();
        // Microseconds between the events of a burst are nobody's concern.
        let created_at = Timestamp::now();
        let before = self.sent;
        let pause = loop {
            if let Some(worker) = self.hand_over_held(&mut egress) {
                break Pause::Room(worker);
            }
            if self.sent.events >= TURN || self.sent.bytes >= TURN_BYTES {
                break Pause::Turn;
            }
            let Some(assignment) = self.assignments.as_slice().first() else { break Pause::Assignment };
            while let Some((lane, _)) = assignment.streams.get(self.gathered.len()) {
                let Some(item) = self.lanes[*lane].item(&self.tools, &self.counts) else { break };
                self.gathered.push(item);
            }
            if let Some((lane, _)) = assignment.streams.get(self.gathered.len()) {
                break Pause::Item(self.lanes[*lane].position);
            }
            let Some(assignment) = self.assignments.next() else { break Pause::Assignment };
            if self.finished {
                self.gathered.clear();
                continue;
            }
            if !self.begun {
                self.begun = true;
                self.tools.begun.update(|begun| *begun = self.mapping.number);
            }
            self.dump(&assignment, created_at);
            self.send(&assignment, created_at, &mut egress);
            self.sent.events += 1;
        };
        let events = self.sent.events - before.events;
        self.counts.events.add(events);
        self.counts.bytes.add((self.sent.bytes_out - before.bytes_out) as u64);
        pause
    }

    fn dump(&self, assignment: &Assignment, created_at: Timestamp) {
        if self.mapping.dump.is_none() {
            return;
        }
        let named =
            |((lane, _), item): (&(usize, Addressees), &Item)| (self.lanes[*lane].name.clone(), item.clone());
        let items = assignment.streams.iter().zip(&self.gathered).map(named).collect();
        if !self.tools.dump.offer(DumpEvent { event: assignment.event, items, created_at }) {
            self.counts.not_dumped.add(1);
        }
    }

    /// Sends what was gathered.
    fn send(&mut self, assignment: &Assignment, created_at: Timestamp, egress: &mut Burst<'_>) {
        let Self { lanes, headers, gathered, held, sent, .. } = self;
        let mut give = |header, frames, workers: &mut dyn ExactSizeIterator<Item = &WorkerName>| {
            let message = Arc::new(Message { header, frames });
            let bytes = message.wire_bytes();
            sent.bytes += bytes;
            sent.bytes_out += bytes * workers.len();
            for worker in workers {
                if !held.is_empty() || egress.try_send(worker, &message).is_err() {
                    held.push_back((worker.clone(), message.clone()));
                }
            }
        };
        if let [(lane, workers)] = &*assignment.streams {
            // As most are: nothing has to be sorted, and the frames move on as they are.
            if let Some(item) = gathered.pop().filter(|_| !workers.is_empty()) {
                let part = Part { stream: &lanes[*lane].name, typ: &item.typ, length: item.frames.len() };
                let header = headers.write(assignment.event, &[part], created_at);
                give(header, item.frames, &mut workers.iter());
            }
            return;
        }
        for (streams, workers) in groups(assignment) {
            let part = |at: &usize| {
                let (item, lane) = (&gathered[*at], assignment.streams[*at].0);
                Part { stream: &lanes[lane].name, typ: &item.typ, length: item.frames.len() }
            };
            let parts: Vec<_> = streams.iter().map(part).collect();
            let header = headers.write(assignment.event, &parts, created_at);
            let frames = streams.iter().flat_map(|at| gathered[*at].frames.iter().cloned()).collect();
            give(header, frames, &mut workers.into_iter());
        }
        gathered.clear();
    }

    /// Sends what there was no room for; gives the worker that still has none.
    fn hand_over_held(&mut self, egress: &mut Burst<'_>) -> Option<WorkerName> {
        while let Some((worker, message)) = self.held.front() {
            if egress.try_send(worker, message).is_err() {
                return Some(worker.clone());
            }
            self.held.pop_front();
        }
        None
    }
}

impl Lane {
    /// The item that belongs to the next event, if it has come.
    fn item(&mut self, tools: &Tools, counts: &WorkMetrics) -> Option<Item> {
        loop {
            let item = match self.alignment.kept() {
                Some(kept) => kept,
                None => self.next(tools)?,
            };
            if tools.on_gap == OnGap::Count {
                return Some(item);
            }
            match self.alignment.place(item) {
                Place::Here(item) => return Some(item),
                Place::Hole(item) => {
                    counts.holes.add(1);
                    return Some(item);
                }
                Place::Late => counts.late.add(1),
            }
        }
    }

    fn next(&mut self, tools: &Tools) -> Option<Item> {
        if self.taken.is_empty() {
            tools.streams[self.position].backlog.take(&mut self.taken, TURN as usize, TURN_BYTES);
        }
        self.taken.pop_front()
    }
}

/// Workers that get the same streams of an event share one message; the streams are positions in the assignment.
fn groups(assignment: &Assignment) -> Vec<(Vec<usize>, Vec<&WorkerName>)> {
    let mut of: Vec<(&WorkerName, Vec<usize>)> = Vec::new();
    for (at, (_, workers)) in assignment.streams.iter().enumerate() {
        for worker in workers {
            match of.iter_mut().find(|(name, _)| *name == worker) {
                Some((_, streams)) => streams.push(at),
                None => of.push((worker, vec![at])),
            }
        }
    }
    let mut groups: Vec<(Vec<usize>, Vec<&WorkerName>)> = Vec::new();
    for (worker, streams) in of {
        match groups.iter_mut().find(|(same, _)| *same == streams) {
            Some((_, workers)) => workers.push(worker),
            None => groups.push((streams, vec![worker])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn names(names: &[&str]) -> Addressees {
        names.iter().map(|name| (*name).into()).collect()
    }

    /// As plain text, to be compared.
    fn told(assignment: &Assignment) -> Vec<(Vec<usize>, Vec<&str>)> {
        let groups = groups(assignment).into_iter();
        groups
            .map(|(streams, workers)| (streams, workers.into_iter().map(|name| &**name).collect()))
            .collect()
    }

    #[test]
    fn each_worker_is_in_one_group_with_all_its_streams() {
        let streams = smallvec![(0, names(&["a", "b"])), (2, names(&["b", "c", "a"])), (3, names(&[]))];
        let assignment = Assignment { event: 1, streams };
        assert_eq!(told(&assignment), [(vec![0, 1], vec!["a", "b"]), (vec![1], vec!["c"])]);
        let alone = Assignment { event: 1, streams: smallvec![(0, names(&["a", "b"]))] };
        assert_eq!(told(&alone), [(vec![0], vec!["a", "b"])]);
        let nobody = Assignment { event: 1, streams: smallvec![(0, names(&[]))] };
        assert_eq!(told(&nobody), []);
    }
}
