//! One event of the current mapping. Its workers are known until it is sent, and its place in their queues
//! until they have taken it.

use orchestrator_subsystem::{Item, NextChance, Progress, wire::Cause};

use super::{
    Snapshot, ended, listed, queue_of, shown,
    wait::{Wait, unknown},
};
use crate::{
    assignment::WorkerName,
    edge::{egress::Place, redis::assigned_key},
    work::{AssignedEvent, SenderState},
};

impl Snapshot {
    /// The event `event` of the current mapping.
    pub(crate) fn event_item(&self, event: u64) -> Item {
        let item = self.item("event", &format!("#{event}"), Progress::InProgress);
        if let Some(reason) = &self.interrupted {
            let sent = self.counts.sent_text();
            let text = format!(
                "is no longer known: the scan was interrupted, since {reason}; {sent}, those that still waited for \
                 workers are dropped, and no further one is sent"
            );
            return Item { text, causes: vec![self.interrupted_cause(reason)], ..ended(item) };
        }
        let Some(sender) = &self.sender else {
            return match self.wait() {
                Some(wait) => {
                    Item { text: "has not arrived: the mapping starts".to_owned(), ..self.waits(item, wait) }
                }
                None => Item { text: "is unknown: the scan gave no answer; ask again".to_owned(), ..item },
            };
        };
        if let [_, ..] = &*sender.refused_by {
            let text = format!("waits for room in the queue of {}", listed(sender.refused_by.iter()));
            return self.behind(Item { text, ..item });
        }
        match &sender.asked {
            Some(asked) => self.assigned(item, event, asked, sender),
            None if sender.last_assigned.is_none_or(|last| event > last) => self.unassigned(item, sender),
            None => self.dealt_with(item, event),
        }
    }

    /// The event is assigned and not sent.
    fn assigned(&self, item: Item, event: u64, asked: &AssignedEvent, sender: &SenderState) -> Item {
        let workers = listed(asked.workers.iter());
        if asked.workers.is_empty() {
            let text = "is assigned to no worker: its frames are dropped once they arrive".to_owned();
            return ended(Item { text, ..item });
        }
        if self.mapping.finished {
            let text = format!(
                "was assigned to {workers} and is not sent: the controller finished the mapping first"
            );
            return ended(Item { text, ..item });
        }
        let text = match (asked.before, self.wait()) {
            (0, Some(wait)) if sender.next == Some(event) => {
                format!("is assigned to {workers}: {}", wait.text)
            }
            (0, _) => format!("is assigned to {workers} and is sent next"),
            (before, Some(wait)) => {
                format!("is assigned to {workers}, behind {before} others: {}", wait.text)
            }
            (before, None) => format!("is assigned to {workers}, behind {before} others that are being sent"),
        };
        self.behind(Item { text, ..item })
    }

    /// No entry that was read assigns the event.
    fn unassigned(&self, item: Item, sender: &SenderState) -> Item {
        if self.mapping.finished {
            let text = "was not assigned before the controller finished the mapping".to_owned();
            return ended(Item { text, ..item });
        }
        let key = assigned_key(self.mapping.uuid.unwrap_or_default());
        let last =
            sender.last_assigned.map_or("none is".to_owned(), |last| format!("the last one is event {last}"));
        let text = format!("is not assigned yet: {last} in `{key}`, {}", self.last_entry_text());
        if sender.is_full {
            let text = format!("{text}; further entries are read once events are sent");
            return self.behind(Item { text, ..item });
        }
        let help = format!("redis-cli {} XREVRANGE {key} + - COUNT 1 shows the last entry", self.redis_cli);
        let cause = self.cause(
            "waits_for_assignments",
            "scan/assign",
            "the controller has not assigned it".to_owned(),
            help,
        );
        let path = cause.path.clone();
        let wait = Wait {
            path,
            text: String::new(),
            since_ms: None,
            cause: Cause { routine: true, ..cause },
            next: unknown("as soon as the controller assigns it to a worker"),
        };
        Item { text, ..self.waits(item, wait) }
    }

    /// The event was given to the queues of its workers, or had none.
    fn dealt_with(&self, item: Item, event: u64) -> Item {
        let at = |is: fn(&Place) -> bool| {
            self.places.iter().filter(move |(_, place)| is(place)).collect::<Vec<_>>()
        };
        let memory = at(|place| matches!(place, Place::Memory { .. } | Place::Disk { .. }));
        if let [first, ..] = &*memory {
            let texts: Vec<_> = memory.iter().map(|(worker, place)| place_text(worker, *place)).collect();
            return self.queued(Item { text: texts.join("; "), ..item }, &first.0);
        }
        let perhaps = at(|place| matches!(place, Place::PerhapsDisk { .. }));
        if let [first, ..] = &*perhaps {
            let texts: Vec<_> = perhaps.iter().map(|(worker, place)| place_text(worker, *place)).collect();
            return self.queued(Item { text: texts.join("; "), ..item }, &first.0);
        }
        let taken: Vec<_> = self.places.iter().map(|(worker, _)| worker).collect();
        let text = match &*taken {
            [] => "was assigned to nobody, or has no stream of this ingester: nothing was sent".to_owned(),
            [worker] => format!("was sent to worker {}, or was assigned to nobody", shown(worker)),
            _ => format!(
                "was sent to at least one of the workers {}, or was assigned to nobody",
                listed(taken.iter().copied())
            ),
        };
        let reported = |worker: &WorkerName| {
            let peer = self.peers.iter().find(|peer| peer.worker == *worker)?;
            let finished = peer.progress.finished.filter(|finished| *finished >= event)?;
            Some(format!("worker {} has reported event {finished} as finished", shown(worker)))
        };
        let mut evidence: Vec<_> = taken.iter().filter_map(|worker| reported(worker)).collect();
        let key = assigned_key(self.mapping.uuid.unwrap_or_default());
        evidence.push(format!(
            "the workers of an event are not kept once it is sent; redis-cli {} XRANGE {key} - + | grep \
             '\"event_number\":{event},' shows them",
            self.redis_cli
        ));
        ended(Item { text, evidence: evidence.into_iter().chain(self.counts.facts()).collect(), ..item })
    }

    /// The event waits in the queue of `worker`.
    fn queued(&self, item: Item, worker: &WorkerName) -> Item {
        let name = shown(worker);
        let peer = self.peers.iter().find(|peer| peer.worker == *worker);
        let (state, verb) = match peer {
            Some(peer) if peer.connected => ("has not read it yet", "restart"),
            _ => ("is not connected", "start"),
        };
        let help = format!("orchestrator ingester status; {verb} worker {name}");
        let cause = self.cause("worker_queue", "egress", format!("worker {name} {state}"), help);
        let oldest = peer.and_then(|peer| peer.oldest_age);
        let wait = Wait {
            path: cause.path.clone(),
            text: String::new(),
            since_ms: None,
            cause: Cause {
                evidence: peer.map(queue_of).into_iter().collect(),
                routine: self.held_up.is_none(),
                ..cause
            },
            next: unknown(match oldest {
                Some(age) => format!(
                    "as soon as worker {name} reads; its oldest event waits for {:.1} s",
                    age.as_secs_f64()
                ),
                None => format!("as soon as worker {name} reads"),
            }),
        };
        self.waits(item, wait)
    }

    /// `item` with the wait of the mapping, which is that of all events behind the next one.
    fn behind(&self, item: Item) -> Item {
        match self.wait() {
            Some(wait) => self.waits(item, wait),
            None => {
                Item { progress: Progress::Waits, next: Some(NextChance::At { at_ms: self.now_ms }), ..item }
            }
        }
    }
}

fn place_text(worker: &WorkerName, place: Place) -> String {
    let worker = shown(worker);
    match place {
        Place::Memory { ahead } => format!("waits in memory for worker {worker}, behind {ahead} others"),
        Place::Disk { first, last } => {
            format!("waits on disk for worker {worker}, with all events from {first} to {last}")
        }
        Place::PerhapsDisk { first, last } => {
            format!("waits on disk for worker {worker}, if it is one of its events from {first} to {last}")
        }
        Place::Taken => String::new(),
    }
}
