//! Answers to `orchestrator why` about one mapping or one of its events. Pure: state in, [`Item`] out.

mod event;
mod history;
mod question;
#[cfg(test)]
mod tests;
mod wait;

use std::sync::Arc;

use orchestrator_observe::NodeSnapshot;
use orchestrator_subsystem::{Item, Progress, wire::Cause};
use orchestrator_text::{sanitize, sanitize_to};

use self::wait::Wait;
pub(crate) use self::{
    history::{Counts, EndedMapping, History, StreamCounts},
    question::Question,
};
use crate::{
    assignment::WorkerName,
    edge::egress::{PeerState, Place, WorkerCause},
    mapping::Mapping,
    work::SenderState,
};

/// Longest name of a worker in a text, bytes.
const NAME_BYTES: usize = 64;

/// State of an ingester and of its current mapping.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Id of the ingester's supervisor.
    pub(crate) ingester: String,
    /// Its path.
    pub(crate) branch: String,
    pub(crate) now_ms: u64,
    /// Options of `redis-cli`.
    pub(crate) redis_cli: Arc<str>,
    pub(crate) mapping: Mapping,
    /// Begin of the mapping, milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// Counts of the mapping.
    pub(crate) counts: Counts,
    /// All streams, by position.
    pub(crate) streams: Vec<StreamState>,
    /// Streams whose sources the mapping waits for; None once it has started.
    pub(crate) awaited: Option<Vec<usize>>,
    /// Reason why its scan was interrupted.
    pub(crate) interrupted: Option<String>,
    /// Last entry of its assignments: id, and time of its read.
    pub(crate) last_entry: Option<(String, u64)>,
    pub(crate) peers: Vec<PeerState>,
    /// Worker that takes or finishes nothing.
    pub(crate) held_up: Option<WorkerCause>,
    /// None if it sends nothing, or gave no answer.
    pub(crate) sender: Option<SenderState>,
    /// Place of the event that was asked about, at each worker.
    pub(crate) places: Vec<(WorkerName, Place)>,
}

/// Source of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamState {
    /// Address or file.
    pub(crate) endpoint: String,
    /// Time until the next attempt to connect, milliseconds, while it is away.
    pub(crate) retry_in_ms: Option<u64>,
    /// Items without an assigned event.
    pub(crate) waiting_items: u64,
}

impl StreamState {
    pub(crate) fn of(child: &NodeSnapshot) -> Self {
        Self {
            endpoint: child.link.as_ref().map(|link| sanitize(&link.endpoint)).unwrap_or_default(),
            retry_in_ms: child.link.as_ref().and_then(|link| link.retry_in_ms),
            waiting_items: history::metric(child, "waiting_items"),
        }
    }
}

impl Snapshot {
    /// The current mapping.
    pub(crate) fn mapping_item(&self) -> Item {
        let item = self.item("mapping", "", Progress::InProgress);
        let sent = self.counts.sent_text();
        let evidence = [Some(self.slowest()).filter(|_| !self.peers.is_empty())].into_iter().flatten();
        let evidence = evidence.chain(self.counts.facts()).collect();
        if let Some(reason) = &self.interrupted {
            let text = format!("was interrupted, since {reason}: {sent}, the others are not sent");
            return Item { text, evidence, causes: vec![self.interrupted_cause(reason)], ..ended(item) };
        }
        if self.mapping.active.is_empty() {
            return Item { text: "uses no stream of this ingester".to_owned(), ..ended(item) };
        }
        match self.wait() {
            Some(wait) => Item { text: format!("{}; {sent}", wait.text), evidence, ..self.waits(item, wait) },
            None => {
                let text = format!("{sent}; {}", self.slowest());
                let causes: Vec<_> = self.worker_cause().into_iter().collect();
                let evidence = self.counts.facts().collect();
                Item { text, causes, evidence, since_ms: Some(self.began_ms), ..item }
            }
        }
    }

    /// Item of the mapping, or of an event with `suffix`, at the sender.
    fn item(&self, kind: &str, suffix: &str, progress: Progress) -> Item {
        Item {
            kind: kind.to_owned(),
            name: name(&self.ingester, &self.mapping, suffix),
            path: self.path("scan/work"),
            progress,
            text: String::new(),
            since_ms: None,
            causes: Vec::new(),
            next: None,
            evidence: Vec::new(),
            continues_as: Vec::new(),
        }
    }

    /// `item` with its wait, and with the worker that takes nothing, if that is another cause.
    fn waits(&self, item: Item, wait: Wait) -> Item {
        let others = self.worker_cause().filter(|cause| cause.kind != wait.cause.kind);
        let causes = std::iter::once(wait.cause).chain(others).collect();
        let (since_ms, next) = (wait.since_ms, Some(wait.next));
        Item { path: wait.path, progress: Progress::Waits, since_ms, causes, next, ..item }
    }

    fn path(&self, child: &str) -> String {
        format!("{}/{child}", self.branch)
    }

    fn worker_cause(&self) -> Option<Cause> {
        let WorkerCause { kind, text, evidence, help } = self.held_up.clone()?;
        Some(Cause { evidence, ..self.cause(kind, "egress", text, help) })
    }

    fn interrupted_cause(&self, reason: &str) -> Cause {
        let text = format!("the scan was interrupted, since {reason}: its remaining events are not sent");
        self.cause("interrupted_scan", "scan/work", text, "set a new mapping at the controller")
    }

    fn cause(&self, kind: &str, child: &str, text: String, help: impl Into<String>) -> Cause {
        Cause {
            kind: kind.to_owned(),
            path: self.path(child),
            text,
            since_ms: None,
            evidence: Vec::new(),
            help: help.into(),
            affects: Vec::new(),
            routine: false,
        }
    }

    /// The worker for which most waits.
    fn slowest(&self) -> String {
        let waiting =
            |peer: &&PeerState| (peer.queued_bytes as u64 + peer.spilled_bytes, peer.queued_messages);
        match self.peers.iter().max_by_key(waiting).filter(|peer| peer.queued_messages > 0) {
            Some(peer) => format!("the slowest worker is {}: {}", shown(&peer.worker), queue_of(peer)),
            None => "no event waits for a worker".to_owned(),
        }
    }
}

fn name(ingester: &str, mapping: &Mapping, suffix: &str) -> String {
    format!("ingester/{ingester}/{}{suffix}", mapping.uuid.unwrap_or_default())
}

fn ended(item: Item) -> Item {
    Item { progress: Progress::Ended, ..item }
}

fn queue_of(peer: &PeerState) -> String {
    let PeerState { queued_messages, queued_bytes, spilled_bytes, .. } = peer;
    format!(
        "{queued_messages} events wait for it, {queued_bytes} bytes in memory and {spilled_bytes} on disk"
    )
}

/// Name of a worker, which comes from the network.
fn shown(worker: &str) -> String {
    sanitize_to(worker, NAME_BYTES)
}

/// Names of workers, at most eight.
fn listed<'a>(workers: impl ExactSizeIterator<Item = &'a WorkerName>) -> String {
    let more = workers.len().saturating_sub(8);
    let names: Vec<_> = workers.take(8).map(|worker| shown(worker)).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}
