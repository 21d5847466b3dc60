//! Hot path: combines one item of each stream of an event and sends one message to each of its
//! workers.

use std::{cmp::Ordering, collections::VecDeque, sync::Arc, time::Instant, vec};

use jiff::Timestamp;
use orchestrator_subsystem::DETAIL;
use orchestrator_supervise::Reply;

use super::{
    active_stream::ActiveStream,
    context::{WorkContext, WorkMetrics},
};
use crate::{
    assignment::{Assignment, WorkerList, WorkerName},
    config::DumpOverflow,
    edge::{
        dump::DumpEvent,
        egress::{Burst, Message},
    },
    header::{HeaderWriter, Part},
    item::Item,
    mapping::Mapping,
    sender_state::WaitCondition,
};

/// Events of one burst, about as many small ones as arrive with one read. Each worker's messages
/// then leave in one write.
const BURST_EVENTS: u64 = 256;
/// Bytes of one burst, so that a large frame is written while it is in the processor's cache.
const BURST_BYTES: usize = 512 << 10;

/// Chunks of assigned events that may wait.
pub(super) const CHUNKS_MAX: usize = 64;

/// Sends the events of one mapping.
pub(super) struct EventSender {
    context: WorkContext,
    pub(super) mapping: Mapping,
    counts: WorkMetrics,
    headers: HeaderWriter,
    /// The active streams.
    active: Vec<ActiveStream>,
    /// The next events.
    pub(super) assignments: vec::IntoIter<Assignment>,
    /// The chunks after them.
    pub(super) ahead: VecDeque<Vec<Assignment>>,
    /// Number of the last assigned event.
    pub(super) last_assigned: Option<u64>,
    /// Pending replies, sent when there is room for more events.
    full: Vec<Reply<()>>,
    /// At least one event was sent.
    begun: bool,
    /// No further event is sent.
    finished: bool,
    pub(super) condition: (WaitCondition, Instant),
    /// Items of the next event received so far.
    gathered: Vec<Item>,
    /// Time of the next event, once it was passed to the dump.
    dumped: Option<Timestamp>,
    /// Messages that their workers' queues refused.
    pub(super) held: VecDeque<(WorkerName, Arc<Message>)>,
    sent: Sent,
}

/// Reason why a burst ended.
pub(super) enum Pause {
    /// The burst reached its limit and yields to other tasks.
    Yield,
    /// The next event is not assigned yet.
    Assignment,
    /// The stream at this position has no item for the next event.
    Item(usize),
    /// This worker's queue is full.
    Room(WorkerName),
    /// The dump has no room for this event, which is sent once it has.
    Dump(DumpEvent),
}

/// Counters since the last yield.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    events: u64,
    /// Bytes, each message counted once.
    bytes: usize,
    /// Bytes, each message counted for each worker.
    bytes_out: usize,
}

impl EventSender {
    pub(super) fn new(context: WorkContext, mapping: Mapping, counts: WorkMetrics) -> Self {
        let stream = |position: &usize| ActiveStream::new(&context, *position);
        let active = mapping.active.iter().map(stream).collect();
        let finished = mapping.finished;
        Self {
            context,
            mapping,
            counts,
            headers: HeaderWriter::default(),
            active,
            assignments: Vec::new().into_iter(),
            ahead: VecDeque::new(),
            last_assigned: None,
            full: Vec::new(),
            begun: false,
            finished,
            condition: (WaitCondition::Yield, Instant::now()),
            gathered: Vec::new(),
            dumped: None,
            held: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    /// Queues events. Returns false if the sender must wait for the reply given to
    /// [`EventSender::reply_when_room`].
    pub(super) fn push_events(&mut self, events: Vec<Assignment>) -> bool {
        self.last_assigned = events.last().map(|assignment| assignment.event).max(self.last_assigned);
        self.ahead.push_back(events);
        self.ahead.len() < CHUNKS_MAX
    }

    /// Sends `reply` when there is room for more events.
    pub(super) fn reply_when_room(&mut self, reply: Reply<()>) {
        self.full.push(reply);
    }

    /// Starts the next chunk of events; false if there is none.
    pub(super) fn next_chunk(&mut self) -> bool {
        let Some(events) = self.ahead.pop_front() else { return false };
        self.assignments = events.into_iter();
        // A receiver that no longer waits is about to be restarted.
        self.full.drain(..).for_each(|reply| _ = reply.send(()));
        true
    }

    /// Sends no further event of mapping `number`, which a worker would take for one of the next
    /// mapping.
    pub(super) fn finish(&mut self, number: u64) {
        self.finished |= number == self.mapping.number;
    }

    /// Condition that the next burst waits for.
    pub(super) fn condition(&self) -> WaitCondition {
        self.condition.0
    }

    /// Sets the condition that the next burst waits for.
    pub(super) fn wait_for(&mut self, condition: WaitCondition) {
        self.counts.blocked.set(u64::from(condition == WaitCondition::Room));
        self.condition = (condition, Instant::now());
    }

    /// Ends a wait and counts its time.
    pub(super) fn resume(&mut self) {
        let (condition, since) = self.condition;
        let metric = match condition {
            WaitCondition::Yield => return self.sent = Sent::default(),
            WaitCondition::Events => &self.counts.wait_assignment,
            WaitCondition::Items(_) => &self.counts.wait_source,
            WaitCondition::Room => &self.counts.wait_egress,
            WaitCondition::Dump => &self.counts.wait_dump,
        };
        self.counts.blocked.set(0);
        metric.add(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX));
    }

    /// Sends events until something is missing.
    pub(super) fn burst(&mut self) -> Pause {
        let egress = self.context.egress.clone();
        let mut egress = egress.burst();
        let before = self.sent;
        let pause = loop {
            if let Some(worker) = self.send_held(&mut egress) {
                break Pause::Room(worker);
            }
            if self.sent.events >= BURST_EVENTS || self.sent.bytes >= BURST_BYTES {
                break Pause::Yield;
            }
            if let Some(pause) = self.seek_numbered() {
                break pause;
            }
            let Some(assignment) = self.assignments.as_slice().first() else { break Pause::Assignment };
            while let Some((stream, _)) = assignment.streams.get(self.gathered.len()) {
                let Some(item) = self.active[*stream].item(&self.context, &self.counts) else { break };
                self.gathered.push(item);
            }
            if let Some((stream, _)) = assignment.streams.get(self.gathered.len()) {
                break Pause::Item(self.active[*stream].position);
            }
            if let Some(event) = self.dump() {
                break Pause::Dump(event);
            }
            let Some(assignment) = self.assignments.next() else { break Pause::Assignment };
            if self.finished {
                self.gathered.clear();
                continue;
            }
            if !self.begun {
                self.begun = true;
                self.context.begun.update(|begun| *begun = self.mapping.number);
            }
            let created_at = self.dumped.take().unwrap_or_else(Timestamp::now);
            self.send(&assignment, created_at, &mut egress);
            self.sent.events += 1;
        };
        let events = self.sent.events - before.events;
        self.counts.events.add(events);
        self.counts.of_mapping.add(events);
        self.context.sent.update(|sent| *sent += events);
        self.counts.bytes.add((self.sent.bytes_out - before.bytes_out) as u64);
        pause
    }

    /// Passes the events before the next item of a source that numbers events, which go to other
    /// ingesters. Items of events that were passed before are dropped.
    fn seek_numbered(&mut self) -> Option<Pause> {
        // Such a stream is alone in its ingester.
        let stream = self.active.first_mut().filter(|stream| stream.numbers_events)?;
        loop {
            let Some(number) = stream.next_number(&self.context) else {
                return Some(Pause::Item(stream.position));
            };
            let Some(assignment) = self.assignments.as_slice().first() else {
                return Some(Pause::Assignment);
            };
            match number.cmp(&assignment.event) {
                Ordering::Equal => return None,
                Ordering::Greater => drop(self.assignments.next()),
                Ordering::Less => {
                    stream.drop_next();
                    self.counts.late.add(1);
                }
            }
        }
    }

    /// Passes the next event to the dump. Returns it if it has to wait for room.
    fn dump(&mut self) -> Option<DumpEvent> {
        if self.mapping.dump.is_none() || self.finished || self.dumped.is_some() {
            return None;
        }
        let assignment = self.assignments.as_slice().first()?;
        let created_at = Timestamp::now();
        let named = |((stream, _), item): (&(usize, WorkerList), &Item)| {
            (self.active[*stream].name.clone(), item.clone())
        };
        let items = assignment.streams.iter().zip(&self.gathered).map(named).collect();
        let event = DumpEvent { event: assignment.event, items, created_at };
        self.dumped = Some(created_at);
        let left = self.context.dump.offer(event).err()?;
        if self.context.dump_overflow == DumpOverflow::Block {
            return Some(left);
        }
        self.counts.not_dumped.add(1);
        None
    }

    /// Sends the gathered items to the workers that the controller's assignment lists for each stream.
    /// Workers with the same streams share one message.
    fn send(&mut self, assignment: &Assignment, created_at: Timestamp, egress: &mut Burst<'_>) {
        let Self { active, headers, gathered, held, sent, mapping, .. } = self;
        let uuid = mapping.uuid.as_ref().map(tracing::field::display);
        let last = assignment.streams.iter().map(|(stream, _)| active[*stream].received).max();
        let received = last.unwrap_or_else(Instant::now);
        let mut send_to = |header, frames, workers: &mut dyn ExactSizeIterator<Item = &WorkerName>| {
            let (event, workers_count) = (assignment.event, workers.len());
            let message = Arc::new(Message { event, header, frames, received });
            let bytes = message.wire_bytes();
            tracing::debug!(target: DETAIL, mapping = uuid, event, bytes, workers = workers_count, "an event with its header is sent");
            sent.bytes += bytes;
            sent.bytes_out += bytes * workers.len();
            for worker in workers {
                if !held.is_empty() || egress.try_send(worker, &message).is_err() {
                    held.push_back((worker.clone(), message.clone()));
                }
            }
        };
        if let [(stream, workers)] = &*assignment.streams {
            // Fast path for one stream: no grouping, and the frames move without a clone.
            if let Some(item) = gathered.pop().filter(|_| !workers.is_empty()) {
                let part = Part { stream: &active[*stream].name, typ: &item.typ, length: item.frames.len() };
                let header = headers.write(assignment.event, &[part], created_at);
                send_to(header, item.frames, &mut workers.iter());
            }
            return;
        }
        for (streams, workers) in groups(assignment) {
            let part = |at: &usize| {
                let (item, stream) = (&gathered[*at], assignment.streams[*at].0);
                Part { stream: &active[stream].name, typ: &item.typ, length: item.frames.len() }
            };
            let parts: Vec<_> = streams.iter().map(part).collect();
            let header = headers.write(assignment.event, &parts, created_at);
            let frames = streams.iter().flat_map(|at| gathered[*at].frames.iter().cloned()).collect();
            send_to(header, frames, &mut workers.into_iter());
        }
        gathered.clear();
    }

    /// Sends held messages; returns the first worker whose queue is still full.
    fn send_held(&mut self, egress: &mut Burst<'_>) -> Option<WorkerName> {
        while let Some((worker, message)) = self.held.front() {
            if egress.try_send(worker, message).is_err() {
                return Some(worker.clone());
            }
            self.held.pop_front();
        }
        None
    }
}

/// Groups the workers that get the same streams, so that they share one message. Streams are
/// positions in the assignment.
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

    fn names(names: &[&str]) -> WorkerList {
        names.iter().map(|name| (*name).into()).collect()
    }

    /// Groups as plain text.
    fn groups_as_text(assignment: &Assignment) -> Vec<(Vec<usize>, Vec<&str>)> {
        let groups = groups(assignment).into_iter();
        groups
            .map(|(streams, workers)| (streams, workers.into_iter().map(|name| &**name).collect()))
            .collect()
    }

    #[test]
    fn each_worker_is_in_one_group_with_all_its_streams() {
        let streams = smallvec![(0, names(&["a", "b"])), (2, names(&["b", "c", "a"])), (3, names(&[]))];
        let assignment = Assignment { event: 1, streams };
        assert_eq!(groups_as_text(&assignment), [(vec![0, 1], vec!["a", "b"]), (vec![1], vec!["c"])]);
        let alone = Assignment { event: 1, streams: smallvec![(0, names(&["a", "b"]))] };
        assert_eq!(groups_as_text(&alone), [(vec![0], vec!["a", "b"])]);
        let nobody = Assignment { event: 1, streams: smallvec![(0, names(&[]))] };
        assert_eq!(groups_as_text(&nobody), []);
    }
}
