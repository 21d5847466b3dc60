//! Mappings that have ended, with their counts.

use std::{collections::VecDeque, time::Duration};

use orchestrator_observe::NodeSnapshot;
use orchestrator_subsystem::{Item, Progress};
use orchestrator_text::sanitize;

use super::name;
use crate::mapping::{FORMER_MAX, Mapping};

/// Durable state of the actor Ingester for [`Explain`](orchestrator_subsystem::Explain).
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Begin of the current mapping, milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// Counts at its begin.
    pub(crate) before: Counts,
    /// Former mappings, oldest first, at most [`FORMER_MAX`].
    pub(crate) ended: VecDeque<EndedMapping>,
}

/// Counts of the scans since the start of the process, or of one mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) assigned: u64,
    /// Events sent although a frame was missing.
    pub(crate) without_frame: u64,
    /// By position.
    pub(crate) streams: Vec<StreamCounts>,
}

/// Counts of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    pub(crate) name: String,
    pub(crate) items: u64,
    pub(crate) gaps: u64,
    pub(crate) missing: u64,
    /// Items without room, of a source that does not wait.
    pub(crate) lost: u64,
    pub(crate) invalid: u64,
    /// Messages before a start or after an end.
    pub(crate) outside: u64,
}

/// A mapping that has ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedMapping {
    pub(crate) mapping: Mapping,
    pub(crate) began_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) counts: Counts,
    /// Reason why its scan was interrupted.
    pub(crate) interrupted: Option<String>,
    /// Attribute path of its job.
    pub(crate) job: Option<String>,
    /// Last event that was queued for a worker.
    pub(crate) last_event: Option<u64>,
    /// Messages that waited for workers at its end.
    pub(crate) waiting: usize,
}

impl History {
    /// Begins a mapping.
    pub(crate) fn begin(&mut self, began_ms: u64, before: Counts) {
        (self.began_ms, self.before) = (began_ms, before);
    }

    /// Adds a mapping, once.
    pub(crate) fn add(&mut self, ended: EndedMapping) {
        if self.of(&ended.mapping).is_none() {
            self.ended.push_back(ended);
            let over = self.ended.len().saturating_sub(FORMER_MAX);
            self.ended.drain(..over);
        }
    }

    /// The record of a mapping, if it has ended.
    pub(crate) fn of(&self, mapping: &Mapping) -> Option<&EndedMapping> {
        self.ended.iter().rev().find(|ended| ended.mapping.uuid == mapping.uuid)
    }
}

/// Value of a child's metric.
pub(super) fn metric(child: &NodeSnapshot, name: &str) -> u64 {
    let found = child.metrics.iter().find(|metric| metric.label.is_none() && metric.name == name);
    found.map_or(0, |metric| u64::try_from(metric.value).unwrap_or_default())
}

impl Counts {
    /// Counts of the branch `scan`. `sent` events were sent since the start of the process.
    pub(crate) fn read(scan: Option<&NodeSnapshot>, sent: u64) -> Self {
        let mut counts = Self { sent, ..Self::default() };
        for child in scan.into_iter().flat_map(|scan| &scan.children) {
            match &*child.id {
                "work" => counts.without_frame = metric(child, "events_without_frame"),
                "assign" => counts.assigned = metric(child, "assigned_events"),
                id if id.starts_with("stream_") => counts.streams.push(StreamCounts {
                    name: sanitize(child.label.as_deref().unwrap_or_default()),
                    items: metric(child, "items"),
                    gaps: metric(child, "gaps"),
                    missing: metric(child, "missing_frames"),
                    lost: metric(child, "lost_items"),
                    invalid: metric(child, "invalid_messages"),
                    outside: metric(child, "outside_scans"),
                }),
                _ => {}
            }
        }
        counts
    }

    /// Counts since `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        self.sent = self.sent.saturating_sub(before.sent);
        self.assigned = self.assigned.saturating_sub(before.assigned);
        self.without_frame = self.without_frame.saturating_sub(before.without_frame);
        for (now, before) in self.streams.iter_mut().zip(&before.streams) {
            now.items = now.items.saturating_sub(before.items);
            now.gaps = now.gaps.saturating_sub(before.gaps);
            now.missing = now.missing.saturating_sub(before.missing);
            now.lost = now.lost.saturating_sub(before.lost);
            now.invalid = now.invalid.saturating_sub(before.invalid);
            now.outside = now.outside.saturating_sub(before.outside);
        }
        self
    }

    pub(super) fn sent_text(&self) -> String {
        format!("{} of {} assigned events are sent", self.sent, self.assigned.max(self.sent))
    }

    /// Facts about each stream, and about events without a frame.
    pub(super) fn facts(&self) -> impl Iterator<Item = String> {
        let without_frame = (self.without_frame > 0)
            .then(|| format!("{} events were sent without a frame (`on_gap`)", self.without_frame));
        self.streams.iter().map(StreamCounts::text).chain(without_frame)
    }

    fn losses(&self) -> Vec<String> {
        self.streams.iter().filter(|stream| stream.has_losses()).map(StreamCounts::text).collect()
    }
}

impl StreamCounts {
    /// True if frames of it are missing.
    pub(super) fn has_losses(&self) -> bool {
        self.missing + self.lost + self.invalid > 0
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("stream {} has sent {} items", self.name, self.items);
        if self.missing > 0 {
            text += &format!("; {} frames are missing in its numbers, in {} gaps", self.missing, self.gaps);
        }
        if self.lost > 0 {
            text += &format!("; {} items were lost, since workers were slower than the source", self.lost);
        }
        if self.invalid > 0 {
            text += &format!("; {} messages were invalid and dropped", self.invalid);
        }
        if self.outside > 0 {
            text +=
                &format!("; {} messages came before a start or after an end and were dropped", self.outside);
        }
        text
    }
}

impl EndedMapping {
    /// The mapping.
    pub(crate) fn mapping_item(&self, ingester: &str, branch: &str) -> Item {
        let Counts { sent, assigned, .. } = self.counts;
        let end = if self.mapping.finished {
            "finished by the controller"
        } else {
            "replaced by a new mapping before the controller finished it"
        };
        let (sent_text, losses) = (self.counts.sent_text(), self.counts.losses());
        let text = match &self.interrupted {
            Some(reason) => format!("was interrupted, since {reason}: {sent_text}; {end}"),
            None if self.mapping.active.is_empty() => format!("used no stream of this ingester; {end}"),
            None if !losses.is_empty() => {
                format!("ended with gaps, {end}: {sent_text}; {}", losses.join("; "))
            }
            None if self.mapping.finished && sent >= assigned => {
                format!("ended whole, {end}: {sent_text}")
            }
            None => format!("ended early, {end}: {sent_text}"),
        };
        let lasted = Duration::from_millis(self.ended_ms.saturating_sub(self.began_ms)).as_secs_f64();
        let dump = self.mapping.dump.as_ref().map(|dump| format!("dump file {}", sanitize(dump)));
        let waiting = (self.waiting > 0).then(|| {
            format!(
                "{} events waited for workers at its end, and are dropped with the next mapping",
                self.waiting
            )
        });
        let evidence = std::iter::once(format!("it lasted {lasted:.1} s")).chain(dump).chain(waiting);
        Item {
            text,
            evidence: evidence.chain(self.counts.facts()).collect(),
            continues_as: self.job.iter().map(|path| format!("queue/{path}")).collect(),
            ..self.item(("mapping", ""), ingester, branch)
        }
    }

    /// The event `event` of the mapping.
    pub(crate) fn event_item(&self, event: u64, ingester: &str, branch: &str) -> Item {
        let sent = match self.last_event {
            Some(last) if event <= last => {
                "was sent to its workers before the end of the mapping, unless it \
                was assigned to nobody or still waited; which worker had it is no longer known"
                    .to_owned()
            }
            Some(last) => format!("was not sent: the mapping ended after event {last}"),
            None => "was not sent: the mapping ended before an event was".to_owned(),
        };
        let kept = "of an ended mapping only counts are kept, and no single event".to_owned();
        let dump = self.mapping.dump.as_ref().map(|dump| format!("dump file {}", sanitize(dump)));
        Item {
            text: sent,
            evidence: std::iter::once(kept).chain(dump).collect(),
            ..self.item(("event", &format!("#{event}")), ingester, branch)
        }
    }

    fn item(&self, (kind, suffix): (&str, &str), ingester: &str, branch: &str) -> Item {
        Item {
            kind: kind.to_owned(),
            name: name(ingester, &self.mapping, suffix),
            path: format!("{branch}/scan/work"),
            progress: Progress::Ended,
            text: String::new(),
            since_ms: Some(self.ended_ms),
            causes: Vec::new(),
            next: None,
            evidence: Vec::new(),
            continues_as: Vec::new(),
        }
    }
}
