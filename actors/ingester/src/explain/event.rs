//! One event of the current mapping. Its workers are known until it is sent, and its place in their queues
//! until they have taken it.

use orchestrator_subsystem::{Item, NextChance, Progress};

use super::{NAMES_MAX, Snapshot, ended, listed, queue_of, shown};
use crate::{
    assignment::WorkerName,
    edge::egress::Place,
    sender_state::{AssignedEvent, SenderState},
};

impl Snapshot {
    /// The event `event` of the current mapping.
    pub(crate) fn event_item(&self, event: u64) -> Item {
        let item = self.item("event", &format!("#{event}"));
        if let Some(reason) = &self.record.interrupted {
            let text = format!(
                "is no longer known: the scan was interrupted, since {reason}; {} were sent, those that still waited for \
                 workers are dropped, and no further one is sent",
                self.record.counts.of_assigned()
            );
            return Item { text, causes: self.interruption(), ..ended(item) };
        }
        if self.record.mapping.active.is_empty() {
            return Item { text: "has no stream of this ingester".to_owned(), ..ended(item) };
        }
        let Some(sender) = &self.sender else {
            if self.record.mapping.finished {
                return self.record.event_item(&self.names, event);
            }
            let text = "is unknown: the scan starts or gave no answer; ask again".to_owned();
            return self.behind(Item { text, ..item });
        };
        match &sender.asked {
            _ if !sender.refused_by.is_empty() => {
                let text = format!("waits for room in the queue of {}", listed(&sender.refused_by));
                self.behind(Item { text, ..item })
            }
            Some(asked) => self.assigned(item, event, asked, sender),
            None if sender.last_assigned.is_none_or(|last| event > last) => self.unassigned(item, sender),
            None => self.dealt_with(item, event),
        }
    }

    /// The event is assigned and not sent.
    fn assigned(&self, item: Item, event: u64, asked: &AssignedEvent, sender: &SenderState) -> Item {
        let AssignedEvent { workers, before } = asked;
        if workers.is_empty() {
            let text = "is assigned to no worker: its frames are dropped once they arrive".to_owned();
            return ended(Item { text, ..item });
        }
        let is_assigned = format!("is assigned to {}", listed(workers));
        if self.record.mapping.finished {
            let text = format!("{is_assigned} and is not sent: the controller finished the mapping first");
            return ended(Item { text, ..item });
        }
        let place = match before {
            0 => "is sent next".to_owned(),
            _ => format!("has {before} before it"),
        };
        let text = match self.wait().filter(|_| *before > 0 || sender.next == Some(event)) {
            Some(wait) => format!("{is_assigned} and {place}: {}", wait.text),
            None => format!("{is_assigned} and {place}"),
        };
        self.behind(Item { text, ..item })
    }

    /// No entry that was read assigns the event.
    fn unassigned(&self, item: Item, sender: &SenderState) -> Item {
        if self.record.mapping.finished {
            let text = "was not assigned before the controller finished the mapping".to_owned();
            return ended(Item { text, ..item });
        }
        let last =
            sender.last_assigned.map_or("none is".to_owned(), |last| format!("event {last} is the last one"));
        let text = format!("is not assigned yet: {last} in `{}`, {}", self.key(), self.last_entry_text());
        if sender.is_full {
            let text = format!("{text}; further entries are read once events are sent");
            return self.behind(Item { text, ..item });
        }
        let wait = self.for_assignments();
        named(item, Item { text, since_ms: None, ..wait })
    }

    /// The event was given to the queues of its workers, or had none.
    fn dealt_with(&self, item: Item, event: u64) -> Item {
        let certain: fn(&Place) -> bool = |place| matches!(place, Place::Memory { .. } | Place::Disk { .. });
        let perhaps: fn(&Place) -> bool = |place| matches!(place, Place::PerhapsDisk { .. });
        for is_found in [certain, perhaps] {
            let mut found = self.places.iter().filter(|(_, place)| is_found(place)).take(NAMES_MAX);
            if let Some(first) = found.next() {
                let text = found.fold(place_text(first), |text, other| text + "; " + &place_text(other));
                return self.queued(Item { text, ..item }, &first.0);
            }
        }
        let workers: Vec<_> = self.places.iter().map(|(worker, _)| worker.clone()).collect();
        let text = match &*workers {
            [] => "was assigned to nobody, or has no frame at this ingester: nothing was sent".to_owned(),
            [worker] => format!("was sent to worker {}, unless it was assigned to nobody", shown(worker)),
            _ => format!("was sent to one or more of {}, unless it was assigned to nobody", listed(&workers)),
        };
        let reported = |worker: &WorkerName| {
            let finished = self.peer(worker)?.progress.finished.filter(|finished| *finished >= event)?;
            Some(format!("worker {} has reported event {finished} as finished", shown(worker)))
        };
        let mut evidence: Vec<_> = workers.iter().filter_map(reported).collect();
        evidence.push(format!(
            "the workers of an event are not kept once it is sent: redis-cli {} XRANGE {} - + | grep \
             '\"event_number\":{event},' shows them",
            self.names.redis_cli,
            self.key()
        ));
        evidence.extend(self.record.counts.facts());
        ended(Item { text, evidence, ..item })
    }

    /// The event waits in the queue of `worker`.
    fn queued(&self, item: Item, worker: &WorkerName) -> Item {
        let (name, peer) = (shown(worker), self.peer(worker));
        let (state, verb) = match peer {
            Some(peer) if peer.connected => ("has not read it yet", "restart"),
            _ => ("is not connected", "start"),
        };
        let help = format!("orchestrator ingester status; {verb} worker {name}");
        let next = format!("as soon as worker {name} reads");
        let mut wait = self.waiting("worker_queue", "egress", format!("worker {name} {state}"), help, &next);
        wait.causes[0].evidence.extend(peer.map(queue_of));
        wait.causes[0].routine = peer.is_some_and(|peer| peer.connected) && self.held_up.is_none();
        named(item.clone(), Item { text: item.text, since_ms: None, ..wait })
    }

    /// `item` with the wait of the mapping, which holds up all events that are not sent.
    fn behind(&self, item: Item) -> Item {
        match self.wait() {
            Some(wait) => named(item.clone(), Item { text: item.text, ..wait }),
            None => {
                let next = Some(NextChance::At { at_ms: self.record.at_ms });
                Item { progress: Progress::Waits, since_ms: None, next, ..item }
            }
        }
    }
}

fn place_text((worker, place): &(WorkerName, Place)) -> String {
    let name = shown(worker);
    match place {
        Place::Disk { first, last } => {
            format!("waits on disk for worker {name}, with all events from {first} to {last}")
        }
        Place::PerhapsDisk { first, last } => {
            format!("waits on disk for worker {name}, if it is one of its events from {first} to {last}")
        }
        Place::Memory { ahead } => format!("waits in memory for worker {name}, with {ahead} before it"),
        Place::Taken => format!("was sent to worker {name}"),
    }
}

/// `wait` under the name of `item`.
fn named(item: Item, wait: Item) -> Item {
    Item { kind: item.kind, name: item.name, ..wait }
}
