//! Explanation of one mapping, or of one event of it.

use orchestrator_observe::{NodeSnapshot, without_root};
use orchestrator_subsystem::{
    Answered, Explain, Explained, Item, NextChance, Progress, item::nearest, wire::Cause,
};
use orchestrator_supervise::{ChildCx, Handle, Handled};
use orchestrator_text::sanitize;
use uuid::Uuid;

use super::Ingester;
use crate::{mapping::Mappings, verbs::WorkerRow};

/// Fewest digits of a UUID that find it.
const DIGITS_MIN: usize = 8;

impl Handle<Explain> for Ingester {
    fn handle(&mut self, verb: Explain, _: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Explain>> {
        let own = format!("{}/", self.identity.name);
        let name = verb.item.strip_prefix(&own).unwrap_or(&verb.item);
        let scan = self.handles.scan.path();
        let seen = Seen {
            ingester: &self.identity.name,
            mappings: self.handles.mappings.get(),
            interrupted: self.handles.interrupted.get(),
            scan: self.tree.node(scan),
            scan_path: scan,
            workers: self.handles.peers(),
        };
        Handled::now(Ok(seen.explained(name)))
    }
}

/// What the ingester knows.
pub(super) struct Seen<'a> {
    pub(super) ingester: &'a str,
    pub(super) mappings: Mappings,
    /// Number of the last mapping whose scan was interrupted.
    pub(super) interrupted: u64,
    /// Children of the current mapping, with their metrics.
    pub(super) scan: Option<NodeSnapshot>,
    pub(super) scan_path: &'a str,
    pub(super) workers: Vec<WorkerRow>,
}

impl Seen<'_> {
    /// `name` is a UUID or its beginning, with the number of an event after a `#`.
    pub(super) fn explained(&self, name: &str) -> Explained {
        let (uuid, event) = match name.split_once('#') {
            Some((uuid, event)) => match event.parse::<u64>() {
                Ok(event) => (uuid, Some(event)),
                Err(_) => return Explained::default(),
            },
            None => (name, None),
        };
        let digits: String = uuid.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        if digits.len() < DIGITS_MIN || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Explained::default();
        }
        let is_it = |uuid: &Uuid| uuid.simple().to_string().starts_with(&digits);
        let current = self.mappings.current.uuid.filter(is_it).map(|uuid| self.current(uuid, event));
        let former =
            self.mappings.former.iter().filter(|uuid| is_it(uuid)).map(|uuid| self.former(*uuid, event));
        let found: Vec<_> = current.into_iter().chain(former).collect();
        if !found.is_empty() {
            return Explained { found, ..Explained::default() };
        }
        let known: Vec<_> =
            self.mappings.current.uuid.iter().chain(&self.mappings.former).map(Uuid::to_string).collect();
        let nearest = nearest(uuid, known.iter().map(String::as_str));
        Explained { nearest, searched: format!("the last {} mappings", known.len()), ..Explained::default() }
    }

    fn item(&self, uuid: Uuid, event: Option<u64>, progress: Progress, text: String) -> Item {
        let (kind, number) = match event {
            Some(event) => ("event", format!("#{event}")),
            None => ("mapping", String::new()),
        };
        Item {
            kind: kind.to_owned(),
            name: format!("ingester/{}/{uuid}{number}", sanitize(self.ingester)),
            path: self.scan_path.to_owned(),
            progress,
            text,
            since_ms: None,
            causes: Vec::new(),
            next: None,
            evidence: Vec::new(),
            continues_as: Vec::new(),
        }
    }

    fn current(&self, uuid: Uuid, event: Option<u64>) -> Item {
        let [sent, assigned] = [("work", "mapping_sent"), ("assign", "mapping_assigned")]
            .map(|(id, name)| self.metric(id, name));
        let counts = format!("{sent} of {assigned} assigned events are sent, or in the queues of workers");
        let is_sent = event.is_some_and(|event| event < sent);
        let is_interrupted = self.interrupted == self.mappings.current.number;
        let mut item = match event {
            _ if is_sent && self.slowest().is_none() => {
                self.item(uuid, event, Progress::Ended, "sent to its workers".to_owned())
            }
            _ if is_sent => {
                let text = "in the queues of its workers, or sent: some have not taken all".to_owned();
                self.item(uuid, event, Progress::InProgress, text)
            }
            Some(_) if is_interrupted => {
                self.item(uuid, event, Progress::Ended, "not sent: the scan was interrupted".to_owned())
            }
            None if is_interrupted => {
                let text = "interrupted: its remaining events are not sent; set a new mapping";
                self.item(uuid, event, Progress::Ended, text.to_owned())
            }
            Some(event) if self.mappings.current.finished => {
                let why = if event < assigned { "not sent" } else { "assigned to nobody" };
                self.item(
                    uuid,
                    Some(event),
                    Progress::Ended,
                    format!("{why}: the controller has finished the mapping"),
                )
            }
            None if self.mappings.current.finished => {
                self.item(uuid, event, Progress::Ended, "finished by the controller".to_owned())
            }
            _ => self.in_progress(uuid, event, sent, assigned),
        };
        item.evidence.push(counts);
        item.evidence.extend(self.slowest());
        item.evidence.extend(self.missing());
        item.evidence
            .extend(self.mappings.current.dump.iter().map(|file| format!("dumped to {}", sanitize(file))));
        item
    }

    fn in_progress(&self, uuid: Uuid, event: Option<u64>, sent: u64, assigned: u64) -> Item {
        let waits_for_frames = event.map_or(sent < assigned, |event| event < assigned);
        let (kind, text) = match (event, waits_for_frames) {
            (Some(_), true) => {
                ("frames", format!("{} assigned events are sent before it", event.unwrap_or(0) - sent))
            }
            (Some(_), false) => ("assignment", "the controller has assigned it to no worker yet".to_owned()),
            (None, true) => {
                ("frames", format!("{} assigned events wait for frames or workers", assigned - sent))
            }
            (None, false) => {
                ("assignment", "all assigned events are sent; the controller assigns more".to_owned())
            }
        };
        let mut item = self.item(uuid, event, Progress::Waits, "in progress".to_owned());
        item.causes.push(Cause {
            kind: kind.to_owned(),
            path: self.scan_path.to_owned(),
            text,
            since_ms: None,
            evidence: Vec::new(),
            help: format!("orchestrator ingester status {}", sanitize(self.ingester)),
            affects: Vec::new(),
            routine: true,
        });
        let reason = match kind {
            "frames" => "as soon as its frames have come and its workers take them",
            _ => "once the controller assigns it",
        };
        item.next = Some(NextChance::Unknown { reason: reason.to_owned() });
        item
    }

    fn former(&self, uuid: Uuid, event: Option<u64>) -> Item {
        let text = "a later mapping has replaced it; what became of its events is not kept".to_owned();
        self.item(uuid, event, Progress::Ended, text)
    }

    /// The worker with the most bytes in its queue.
    fn slowest(&self) -> Option<String> {
        let waiting = self.workers.iter().filter(|worker| worker.queued_messages > 0);
        let WorkerRow { worker, queued_messages, queued_bytes, oldest_ms, .. } =
            waiting.max_by_key(|worker| worker.queued_bytes)?;
        Some(format!(
            "worker {} has not taken {queued_messages} messages ({queued_bytes} bytes), the oldest for {} ms",
            sanitize(worker),
            oldest_ms.unwrap_or(0)
        ))
    }

    /// Gaps of the streams, which are counted from the start of the program on.
    fn missing(&self) -> Vec<String> {
        let streams =
            self.scan.iter().flat_map(|scan| &scan.children).filter(|node| node.id.starts_with("stream_"));
        let text = |node: &NodeSnapshot| {
            let value = |name: &str| metric_of(node, name);
            let (gaps, missing) = (value("gaps"), value("missing_frames"));
            let name = node.label.as_deref().unwrap_or_else(|| without_root(&node.path));
            (gaps > 0).then(|| {
                format!("stream {}: {gaps} gaps and {missing} missing frames since the start", sanitize(name))
            })
        };
        streams.filter_map(text).collect()
    }

    fn metric(&self, child: &str, name: &str) -> u64 {
        let children = self.scan.iter().flat_map(|scan| &scan.children);
        children.filter(|node| node.id == child).map(|node| metric_of(node, name)).sum()
    }
}

fn metric_of(node: &NodeSnapshot, name: &str) -> u64 {
    let metric = node.metrics.iter().find(|metric| metric.name == name && metric.label.is_none());
    metric.map_or(0, |metric| u64::try_from(metric.value).unwrap_or(0))
}

#[cfg(test)]
mod tests;
