//! The condition that the current mapping waits for.

use std::time::Duration;

use orchestrator_observe::millis;
use orchestrator_subsystem::{NextChance, wire::Cause};

use super::{Snapshot, StreamCounts, StreamState, queue_of, shown};
use crate::{
    edge::redis::assigned_key,
    ingester::SOURCES_TIMEOUT,
    work::{SenderState, WaitCondition},
};

/// Age of a wait from which it is told. A scan that goes on waits for frames and events all the time.
const LONG: Duration = Duration::from_secs(1);

/// A wait of the whole mapping.
pub(super) struct Wait {
    /// The child at which it waits.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) since_ms: Option<u64>,
    pub(super) cause: Cause,
    pub(super) next: NextChance,
}

impl Snapshot {
    /// The wait of the mapping; None while it is in progress.
    pub(super) fn wait(&self) -> Option<Wait> {
        if let Some(awaited) = &self.awaited {
            return Some(self.for_sources(awaited));
        }
        let sender = self.sender.as_ref()?;
        let is_long = sender.waited >= LONG;
        match sender.condition {
            WaitCondition::Room if is_long => Some(self.for_room(sender)),
            WaitCondition::Dump if is_long => Some(self.for_dump(sender)),
            WaitCondition::Items(stream) if is_long || self.counts_of(stream).items == 0 => {
                Some(self.for_item(stream, sender))
            }
            WaitCondition::Events => match self.worker_cause() {
                Some(cause) => Some(self.for_worker(cause)),
                None => (is_long || self.counts.assigned == 0).then(|| self.for_assignments(sender)),
            },
            _ => None,
        }
    }

    /// Sources have a time to connect before the mapping is published.
    fn for_sources(&self, awaited: &[usize]) -> Wait {
        let source = |stream: &usize| {
            format!("stream {} at {}", self.counts_of(*stream).name, self.stream(*stream).endpoint)
        };
        let sources: Vec<_> = awaited.iter().map(source).collect();
        let text = match awaited {
            [] => "starts: its children restart".to_owned(),
            _ => format!("starts: it waits for the source of {}", sources.join(" and of ")),
        };
        let child = awaited.first().map_or("scan".to_owned(), |stream| format!("scan/stream_{stream}"));
        let help = "nothing: it starts in any case, but frames sent before a source is connected are lost";
        let cause = Cause { routine: true, ..self.cause("mapping_starts", &child, text.clone(), help) };
        let next = NextChance::At { at_ms: self.began_ms + millis(SOURCES_TIMEOUT) };
        Wait { path: self.path(&child), text, since_ms: Some(self.began_ms), cause, next }
    }

    /// An event is assigned, and a stream has no item for it.
    fn for_item(&self, position: usize, sender: &SenderState) -> Wait {
        let (counts, stream) = (self.counts_of(position), self.stream(position));
        let (name, from) = (&counts.name, &stream.endpoint);
        let (kind, awaited) = match counts.items {
            0 => ("waits_for_start", "the start message"),
            _ => ("waits_for_frame", "a frame"),
        };
        let event = sender.next.map_or("it".to_owned(), |event| format!("event {event}"));
        let text = format!("{event} waits for {awaited} of stream {name} from {from}");
        let mut evidence = vec![counts.text()];
        if counts.missing + counts.lost > 0 {
            let note =
                "frames that are missing never come: on_gap = \"align\" sends their events without them";
            evidence.push(note.to_owned());
        }
        let help = if counts.items == 0 && counts.outside > 0 {
            format!("begin a new series at {from}: the running one began before the mapping")
        } else {
            format!("check that {from} sends; orchestrator ingester status shows the items of {name}")
        };
        let child = format!("scan/stream_{position}");
        let routine = !counts.has_losses() && counts.outside == 0;
        let cause = self.cause(
            kind,
            &child,
            format!("stream {name} from {from} has not sent {awaited} for {event}"),
            help,
        );
        let next = match stream.retry_in_ms {
            Some(retry_in_ms) => NextChance::NotBefore { at_ms: self.now_ms + retry_in_ms },
            None => unknown(format!("as soon as stream {name} sends {awaited}")),
        };
        let since_ms = self.since(sender);
        let cause = Cause { since_ms, evidence, routine, ..cause };
        Wait { path: self.path(&child), text, since_ms, cause, next }
    }

    /// All assigned events are sent.
    fn for_assignments(&self, sender: &SenderState) -> Wait {
        let key = assigned_key(self.mapping.uuid.unwrap_or_default());
        let last = self.last_entry_text();
        let waiting: u64 = self.streams.iter().map(|stream| stream.waiting_items).sum();
        let text = format!("waits for the controller's assignments in `{key}`, {last}");
        let help = format!(
            "redis-cli {} XREVRANGE {key} + - COUNT 1 shows the last one; the controller assigns events to \
             workers that are ready",
            self.redis_cli
        );
        let cause = self.cause(
            "waits_for_assignments",
            "scan/assign",
            format!("no further event is assigned in `{key}`, {last}"),
            help,
        );
        let since_ms = self.since(sender);
        let evidence = vec![format!("{waiting} items of its streams wait for their events")];
        let cause = Cause { since_ms, evidence, routine: waiting == 0, ..cause };
        let next = unknown("as soon as the controller assigns further events, or finishes the mapping");
        Wait { path: self.path("scan/assign"), text, since_ms, cause, next }
    }

    pub(super) fn last_entry_text(&self) -> String {
        match &self.last_entry {
            Some((id, at_ms)) => {
                let age = Duration::from_millis(self.now_ms.saturating_sub(*at_ms)).as_secs_f64();
                format!("whose last entry {id} was read {age:.1} s ago")
            }
            None => "of which no entry was read".to_owned(),
        }
    }

    /// All sending waits for the queue of one worker.
    fn for_room(&self, sender: &SenderState) -> Wait {
        let (worker, event) = match &sender.refused {
            Some((worker, event)) => (&**worker, format!("event {event}")),
            None => ("of unknown name", "it".to_owned()),
        };
        let name = shown(worker);
        let text = format!("{event} and all after it wait for room in the queue of worker {name}");
        let peer = self.peers.iter().find(|peer| &*peer.worker == worker);
        let evidence: Vec<_> = peer.map(queue_of).into_iter().collect();
        let verb = if peer.is_some_and(|peer| peer.connected) { "restart" } else { "start" };
        let help = format!(
            "orchestrator ingester status; {verb} worker {name}, or give it a larger egress_bytes_per_peer and spill_bytes"
        );
        let full =
            format!("the queue of worker {name} is full in memory and on disk, and all workers wait for it");
        let since_ms = self.since(sender);
        let cause = Cause { since_ms, evidence, ..self.cause("queue_full", "egress", full, help) };
        let next = unknown(format!("as soon as worker {name} reads"));
        Wait { path: self.path("egress"), text, since_ms, cause, next }
    }

    fn for_dump(&self, sender: &SenderState) -> Wait {
        let event = sender.next.unwrap_or_default();
        let text = format!("event {event} waits for room in the dump, whose disk is slower than the scan");
        let help = "use a faster disk, or dump_overflow = \"omit\"";
        let since_ms = self.since(sender);
        let cause = Cause { since_ms, ..self.cause("dump_full", "dump", text.clone(), help) };
        Wait {
            path: self.path("dump"),
            text,
            since_ms,
            cause,
            next: unknown("as soon as the dump is written"),
        }
    }

    /// Everything is sent but what waits for a worker.
    fn for_worker(&self, cause: Cause) -> Wait {
        let next = unknown("as soon as the worker goes on");
        Wait { path: cause.path.clone(), text: cause.text.clone(), since_ms: cause.since_ms, cause, next }
    }

    fn counts_of(&self, position: usize) -> StreamCounts {
        self.counts.streams.get(position).cloned().unwrap_or_default()
    }

    fn stream(&self, position: usize) -> StreamState {
        self.streams.get(position).cloned().unwrap_or_default()
    }

    fn since(&self, sender: &SenderState) -> Option<u64> {
        Some(self.now_ms.saturating_sub(millis(sender.waited)))
    }
}

pub(super) fn unknown(reason: impl Into<String>) -> NextChance {
    NextChance::Unknown { reason: reason.into() }
}
