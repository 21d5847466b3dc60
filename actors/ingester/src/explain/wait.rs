//! The condition that the current mapping waits for.

use std::time::Duration;

use orchestrator_observe::millis;
use orchestrator_subsystem::{Item, NextChance};

use super::{Snapshot, queue_of, shown};
use crate::{
    edge::redis::assigned_key,
    ingester::SOURCES_TIMEOUT,
    sender_state::{SenderState, WaitCondition},
};

/// Age of a wait from which it is told. A scan that goes on waits for frames and events all the time.
const LONG: Duration = Duration::from_secs(1);

impl Snapshot {
    /// The mapping with what it waits for; None while it is in progress.
    pub(super) fn wait(&self) -> Option<Item> {
        if let Some(awaited) = &self.awaited {
            return Some(self.for_sources(awaited));
        }
        let sender = self.sender.as_ref()?;
        let is_long = sender.waited >= LONG;
        let mut item = match sender.condition {
            WaitCondition::Room if is_long => self.for_room(sender),
            WaitCondition::Dump if is_long => {
                let text = "waits for the disk of the dump, which is slower than the scan".to_owned();
                let help = "use a faster disk, or dump_overflow = \"omit\"";
                self.waiting("dump_full", "dump", text, help, "as soon as the dump is written")
            }
            WaitCondition::Items(stream) if is_long || self.items(stream) == 0 => {
                self.for_item(stream, sender)
            }
            WaitCondition::Events if self.held_up.is_some() => self.for_worker()?,
            WaitCondition::Events if is_long || self.record.counts.assigned == 0 => self.for_assignments(),
            _ => return None,
        };
        item.since_ms = Some(self.record.at_ms.saturating_sub(millis(sender.waited)));
        item.causes.iter_mut().for_each(|cause| cause.since_ms = item.since_ms);
        Some(item)
    }

    /// Sources have a time to connect before the mapping is published.
    fn for_sources(&self, awaited: &[usize]) -> Item {
        let sources: Vec<_> = awaited.iter().map(|stream| self.source(*stream)).collect();
        let text = match awaited {
            [] => "starts: its children restart".to_owned(),
            _ => format!("starts: it waits until these sources are connected: {}", sources.join(", ")),
        };
        let child = awaited.first().map_or("scan".to_owned(), |stream| format!("scan/stream_{stream}"));
        let help =
            "check these sources: the mapping starts in any case, and frames sent before that are lost";
        let mut item = self.waiting("mapping_starts", &child, text, help, "");
        let began_ms = self.record.began_ms;
        item.causes[0].routine = true;
        item.next = Some(NextChance::At { at_ms: began_ms + millis(SOURCES_TIMEOUT) });
        Item { since_ms: Some(began_ms), ..item }
    }

    /// An event is assigned, and a stream has no item for it.
    fn for_item(&self, stream: usize, sender: &SenderState) -> Item {
        let counts = &self.record.counts;
        let (kind, awaited) = match self.items(stream) {
            0 => ("waits_for_start", "the start message"),
            _ => ("waits_for_frame", "a frame"),
        };
        let event = sender.next.map_or("it".to_owned(), |event| format!("event {event}"));
        let source = self.source(stream);
        let outside = counts.streams.get(stream).map_or(0, |(_, counts)| counts[5]);
        let help = if self.items(stream) == 0 && outside > 0 {
            format!("begin a new series at {source}: the running one began before the mapping")
        } else {
            format!("check that {source} sends; orchestrator ingester status shows its items")
        };
        let text = format!("{event} waits for {awaited} of {source}");
        let next = format!("as soon as {source} sends {awaited}");
        let mut item = self.waiting(kind, &format!("scan/stream_{stream}"), text, help, &next);
        let cause = &mut item.causes[0];
        cause.evidence.push(counts.stream_text(stream));
        cause.routine = !counts.has_losses(stream) && outside == 0;
        if counts.has_losses(stream) {
            let fact = "each missing frame shifts later ones to earlier events, so that the last events get none, \
                unless on_gap = \"align\"";
            cause.evidence.push(fact.to_owned());
        }
        if let Some(retry_in_ms) = self.streams.get(stream).and_then(|stream| stream.retry_in_ms) {
            item.next = Some(NextChance::NotBefore { at_ms: self.record.at_ms + retry_in_ms });
        }
        item
    }

    /// All assigned events are sent.
    pub(super) fn for_assignments(&self) -> Item {
        let (key, last) = (self.key(), self.last_entry_text());
        let text = format!("waits for the controller's assignments in `{key}`, {last}");
        let help = format!(
            "redis-cli {} XREVRANGE {key} + - COUNT 1 shows the last one; the controller assigns events to workers \
             that are ready",
            self.names.redis_cli
        );
        let next = "as soon as the controller assigns further events, or finishes the mapping";
        let mut item = self.waiting("waits_for_assignments", "scan/assign", text, help, next);
        let waiting: u64 = self.streams.iter().map(|stream| stream.waiting_items).sum();
        let cause = &mut item.causes[0];
        cause.evidence.push(format!("{waiting} items of its streams wait for their events"));
        cause.routine = waiting == 0;
        item
    }

    /// All sending waits for the queue of one worker.
    fn for_room(&self, sender: &SenderState) -> Item {
        let refused = sender.refused.as_ref();
        let (worker, event) = refused.map_or(("", 0), |(worker, event)| (&**worker, *event));
        let (name, peer) = (shown(worker), self.peer(worker));
        let text = format!("event {event} and all after it wait for room in the queue of worker {name}");
        let verb = if peer.is_some_and(|peer| peer.connected) { "restart" } else { "start" };
        let help = format!(
            "orchestrator ingester status; {verb} worker {name}, or set a larger egress_bytes_per_peer or spill_bytes"
        );
        let next = format!("as soon as worker {name} reads");
        let mut item = self.waiting("queue_full", "egress", text, help, &next);
        item.causes[0].evidence.extend(peer.map(queue_of));
        item
    }

    /// Everything that was assigned is queued, and a worker does not go on. The endpoint adds the cause.
    fn for_worker(&self) -> Option<Item> {
        let cause = self.worker_cause()?;
        let text = format!("all assigned events are queued, and {}", cause.text);
        let item = self.waiting(&cause.kind, "egress", text, "", "as soon as the worker goes on");
        Some(Item { causes: Vec::new(), ..item })
    }

    /// Key of the assignments.
    pub(super) fn key(&self) -> String {
        assigned_key(self.record.mapping.uuid.unwrap_or_default())
    }

    pub(super) fn last_entry_text(&self) -> String {
        let Some((id, at_ms)) = &self.last_entry else { return "of which no entry was read".to_owned() };
        let age = Duration::from_millis(self.record.at_ms.saturating_sub(*at_ms)).as_secs_f64();
        format!("whose last entry {id} was read {age:.1} s ago")
    }

    fn items(&self, stream: usize) -> u64 {
        self.record.counts.streams.get(stream).map_or(0, |(_, counts)| counts[0])
    }

    /// Name of a stream, with its address.
    fn source(&self, stream: usize) -> String {
        let name = self.record.counts.streams.get(stream).map_or("", |(name, _)| name);
        let endpoint = self.streams.get(stream).map_or("", |stream| &stream.endpoint);
        format!("stream {name} from {endpoint}")
    }
}
