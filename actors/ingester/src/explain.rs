//! Answers to `orchestrator why` about one mapping or one of its events. Pure: state in, [`Item`] out.

mod event;
mod question;
mod record;
#[cfg(test)]
mod tests;
mod wait;

use orchestrator_observe::NodeSnapshot;
use orchestrator_subsystem::{Item, NextChance, Progress, wire::Cause};
use orchestrator_text::{sanitize, sanitize_to};

pub(crate) use self::{
    question::Question,
    record::{Counts, History, Names, Record},
};
use crate::{
    assignment::WorkerName,
    edge::egress::{PeerState, Place, WorkerCause},
    sender_state::SenderState,
};

/// Longest name of a worker in a text, bytes.
const NAME_BYTES: usize = 64;
/// Most workers named in a text.
const NAMES_MAX: usize = 8;

/// The current mapping and the children that work on it.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) names: Names,
    /// The mapping, as it would end now.
    pub(crate) record: Record,
    /// All streams, by position.
    pub(crate) streams: Vec<StreamState>,
    /// Streams whose sources the mapping waits for; None once it has started.
    pub(crate) awaited: Option<Vec<usize>>,
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
#[derive(Debug, Clone, Default)]
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
            waiting_items: record::metric(child, "waiting_items"),
        }
    }
}

impl Snapshot {
    /// The current mapping.
    pub(crate) fn mapping_item(&self) -> Item {
        let Record { mapping, counts, interrupted, began_ms, .. } = &self.record;
        let item = self.item("mapping", "");
        let sent = format!("{} are queued or sent", counts.of_assigned());
        let mut evidence = vec![self.slowest()];
        evidence.extend(counts.facts());
        evidence.extend(self.record.dump_text());
        if mapping.finished {
            return self.record.mapping_item(&self.names);
        } else if let Some(reason) = interrupted {
            let sent = counts.of_assigned();
            let text = format!("was interrupted, since {reason}: {sent} were sent, the others are not");
            return Item { text, evidence, causes: self.interruption(), ..ended(item) };
        } else if mapping.active.is_empty() {
            return Item { text: "uses no stream of this ingester".to_owned(), ..ended(item) };
        }
        match self.wait() {
            Some(wait) => Item { text: format!("{}; {sent}", wait.text), evidence, ..wait },
            None => {
                let text = format!("{sent}; {}", evidence.remove(0));
                let causes = self.worker_cause().into_iter().collect();
                Item { text, causes, evidence, since_ms: Some(*began_ms), ..item }
            }
        }
    }

    /// Item in progress: the mapping, or an event of it.
    fn item(&self, kind: &str, suffix: &str) -> Item {
        Item { progress: Progress::InProgress, ..self.record.item(&self.names, kind, suffix) }
    }

    /// The mapping while it waits for one cause. `next` tells when the wait ends.
    fn waiting(&self, kind: &str, child: &str, text: String, help: impl Into<String>, next: &str) -> Item {
        let cause = self.cause(kind, child, text.clone(), help.into());
        let next = Some(NextChance::Unknown { reason: next.to_owned() });
        let (path, causes, progress) = (cause.path.clone(), vec![cause], Progress::Waits);
        Item { path, progress, text, causes, next, ..self.item("mapping", "") }
    }

    /// The worker that takes nothing. The endpoint adds it to an item that waits.
    fn worker_cause(&self) -> Option<Cause> {
        let WorkerCause { kind, text, evidence, help } = self.held_up.clone()?;
        Some(Cause { evidence, ..self.cause(kind, "egress", text, help) })
    }

    fn interruption(&self) -> Vec<Cause> {
        let text = "the scan was interrupted: its remaining events are not sent".to_owned();
        let help = "set a new mapping at the controller".to_owned();
        vec![self.cause("interrupted_scan", "scan/work", text, help)]
    }

    fn cause(&self, kind: &str, child: &str, text: String, help: String) -> Cause {
        Cause::new(kind, &format!("{}/{child}", self.names.branch), text, help)
    }

    fn peer(&self, worker: &str) -> Option<&PeerState> {
        self.peers.iter().find(|peer| &*peer.worker == worker)
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

/// Names of workers, not all of many.
fn listed(workers: &[WorkerName]) -> String {
    let more = workers.len().saturating_sub(NAMES_MAX);
    let names: Vec<_> = workers.iter().take(NAMES_MAX).map(|worker| shown(worker)).collect();
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
