//! Counts of a mapping, which are kept after its end.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use orchestrator_observe::NodeSnapshot;
use orchestrator_subsystem::{Item, Progress};
use orchestrator_text::sanitize;

use crate::mapping::{FORMER_MAX, Mapping};

/// Metrics of a stream that are kept: items, missing frames, gaps, items lost without room, invalid messages,
/// and messages before a start or after an end.
const STREAM_METRICS: [&str; 6] =
    ["items", "missing_frames", "gaps", "lost_items", "invalid_messages", "outside_scans"];

/// Names of an ingester.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Id of its supervisor.
    pub(crate) ingester: String,
    /// Path of its supervisor.
    pub(crate) branch: String,
    /// Options of `redis-cli`.
    pub(crate) redis_cli: Arc<str>,
}

/// Durable state of the actor Ingester for operators.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Begin of the current mapping, milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// Counts at its begin.
    pub(crate) before: Counts,
    /// Ended mappings, oldest first, at most [`FORMER_MAX`].
    pub(crate) ended: VecDeque<Record>,
}

impl History {
    /// Adds a mapping that has ended, once.
    pub(crate) fn add(&mut self, record: Record) {
        if self.ended.back().is_none_or(|last| last.mapping.uuid != record.mapping.uuid) {
            self.ended.push_back(record);
            let over = self.ended.len().saturating_sub(FORMER_MAX);
            self.ended.drain(..over);
        }
    }
}

/// Counts of the scans since the start of the process, or of one mapping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) assigned: u64,
    /// Events sent although a frame was missing.
    pub(crate) without_frame: u64,
    /// Name and [`STREAM_METRICS`], by position.
    pub(crate) streams: Vec<(String, [u64; 6])>,
}

/// A mapping and its counts.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) mapping: Mapping,
    pub(crate) began_ms: u64,
    /// Its end, or the time of the question.
    pub(crate) at_ms: u64,
    pub(crate) counts: Counts,
    /// Reason why its scan was interrupted.
    pub(crate) interrupted: Option<String>,
    /// Attribute path of its job.
    pub(crate) job: Option<String>,
    /// Last event that was queued for a worker.
    pub(crate) last_event: Option<u64>,
    /// Messages that wait for workers.
    pub(crate) waiting: usize,
}

/// Value of a child's metric.
pub(super) fn metric(child: &NodeSnapshot, name: &str) -> u64 {
    let found = child.metrics.iter().find(|metric| metric.label.is_none() && metric.name == name);
    found.map_or(0, |metric| u64::try_from(metric.value).unwrap_or_default())
}

impl Counts {
    /// Counts of the branch `scan`, which has `sent` events.
    pub(crate) fn read(scan: Option<&NodeSnapshot>, sent: u64) -> Self {
        let mut counts = Self { sent, ..Self::default() };
        for child in scan.into_iter().flat_map(|scan| &scan.children) {
            match (&*child.id, &child.label) {
                ("work", _) => counts.without_frame = metric(child, "events_without_frame"),
                ("assign", _) => counts.assigned = metric(child, "assigned_events"),
                (_, Some(name)) => {
                    counts.streams.push((sanitize(name), STREAM_METRICS.map(|name| metric(child, name))));
                }
                _ => {}
            }
        }
        counts
    }

    /// Counts since `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        let streams = self.streams.iter_mut().zip(&before.streams);
        let streams = streams.flat_map(|((_, now), (_, before))| now.iter_mut().zip(before));
        let others = [
            (&mut self.sent, &before.sent),
            (&mut self.assigned, &before.assigned),
            (&mut self.without_frame, &before.without_frame),
        ];
        streams.chain(others).for_each(|(now, before)| *now = now.saturating_sub(*before));
        self
    }

    /// Events that were given to the queues of their workers, of those assigned.
    pub(super) fn of_assigned(&self) -> String {
        format!("{} of {} assigned events", self.sent, self.assigned.max(self.sent))
    }

    /// Facts about each stream, and about events without a frame.
    pub(super) fn facts(&self) -> Vec<String> {
        let mut facts: Vec<_> = (0..self.streams.len()).map(|position| self.stream_text(position)).collect();
        if self.without_frame > 0 {
            facts.push(format!("{} events were sent without a frame (`on_gap`)", self.without_frame));
        }
        facts
    }

    /// The stream at a position, with its losses.
    pub(super) fn stream_text(&self, position: usize) -> String {
        let Some((name, [items, missing, gaps, lost, invalid, outside])) = self.streams.get(position) else {
            return String::new();
        };
        let losses = [
            (missing, format!("{missing} frames are missing in its numbers (gaps: {gaps})")),
            (lost, format!("{lost} items were lost, since workers were slower than the source")),
            (invalid, format!("{invalid} messages were invalid and dropped")),
            (outside, format!("{outside} messages came before a start or after an end and were dropped")),
        ];
        let losses = losses.into_iter().filter(|(count, _)| **count > 0).map(|(_, text)| format!("; {text}"));
        format!("stream {name} has sent {items} items{}", losses.collect::<String>())
    }

    /// True if frames of the stream are missing.
    pub(super) fn has_losses(&self, position: usize) -> bool {
        self.streams
            .get(position)
            .is_some_and(|(_, [_, missing, _, lost, invalid, _])| missing + lost + invalid > 0)
    }
}

impl Record {
    /// The mapping, which has ended.
    pub(crate) fn mapping_item(&self, names: &Names) -> Item {
        let Self { mapping, counts, .. } = self;
        let end = match mapping.finished {
            true => "finished by the controller",
            false => "replaced by a new mapping before the controller finished it",
        };
        let losses = (0..counts.streams.len()).filter(|position| counts.has_losses(*position));
        let losses: Vec<_> = losses.map(|position| counts.stream_text(position)).collect();
        let sent = format!("{} were sent", counts.of_assigned());
        let text = match &self.interrupted {
            Some(reason) => format!("was interrupted, since {reason}: {sent}; {end}"),
            None if mapping.active.is_empty() => format!("used no stream of this ingester; {end}"),
            None if !losses.is_empty() => format!("ended with gaps, {end}: {sent}; {}", losses.join("; ")),
            None if mapping.finished && counts.sent >= counts.assigned => {
                format!("ended whole, {end}: {sent}")
            }
            None => format!("ended early, {end}: {sent}"),
        };
        let lasted = Duration::from_millis(self.at_ms.saturating_sub(self.began_ms)).as_secs_f64();
        let mut evidence = vec![format!("it lasted {lasted:.1} s")];
        evidence.extend(self.dump_text());
        if self.waiting > 0 {
            evidence.push(format!(
                "{} events waited for workers at its end; a new mapping drops them",
                self.waiting
            ));
        }
        evidence.extend(counts.facts());
        let continues_as = self.job.iter().map(|path| format!("queue/{path}")).collect();
        Item { text, evidence, continues_as, ..self.item(names, "mapping", "") }
    }

    /// An event of the mapping, which has ended.
    pub(crate) fn event_item(&self, names: &Names, event: u64) -> Item {
        let text = match self.last_event {
            Some(last) if event <= last => {
                "was sent to its workers, unless it had none or still waited for one at \
                the end of the mapping"
                    .to_owned()
            }
            Some(last) => format!("was not sent: the mapping ended after event {last}"),
            None => "was not sent: the mapping ended before any event was".to_owned(),
        };
        let mut evidence = vec!["only the counts of an ended mapping are kept, not its events".to_owned()];
        evidence.extend(self.dump_text());
        Item { text, evidence, ..self.item(names, "event", &format!("#{event}")) }
    }

    pub(super) fn dump_text(&self) -> Option<String> {
        self.mapping.dump.as_ref().map(|dump| format!("dump file {}", sanitize(dump)))
    }

    /// Item of the mapping, or of an event with `suffix`, without text.
    pub(super) fn item(&self, names: &Names, kind: &str, suffix: &str) -> Item {
        let uuid = self.mapping.uuid.unwrap_or_default();
        let name = format!("ingester/{}/{uuid}{suffix}", names.ingester);
        let path = format!("{}/scan/work", names.branch);
        Item { since_ms: Some(self.at_ms), ..Item::new(kind, name, &path, Progress::Ended, String::new()) }
    }
}
