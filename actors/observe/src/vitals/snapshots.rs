//! Snapshots of what a child reports.

use std::time::Instant;

use super::Vitals;
use crate::{
    Link, Timing,
    clock::{millis, wall_ms},
    link_failure::LinkFailure,
    link_status::LinkStatus,
    metric::Metric,
    snapshot::{
        InProgressSnapshot, LabelSnapshot, LinkSnapshot, MetricSnapshot, NoteSnapshot, TimingSnapshot,
    },
};

impl Vitals {
    /// Oldest work item in progress.
    pub fn in_progress_snapshot(&self) -> Option<InProgressSnapshot> {
        let (item, now) = (self.work.oldest()?, Instant::now());
        Some(InProgressSnapshot {
            name: item.name.to_owned(),
            for_ms: millis(now.saturating_duration_since(item.since)),
            silent_ms: millis(item.silence(now)),
        })
    }

    /// True if the oldest work item has made no progress for [`STUCK_AFTER`](crate::STUCK_AFTER).
    pub fn work_is_stuck(&self) -> bool {
        self.work.oldest().is_some_and(|item| item.is_stuck(Instant::now()))
    }

    /// State of the connection; None if the child has none.
    pub fn link_snapshot(&self) -> Option<LinkSnapshot> {
        let (kind, endpoint, link) = self.link_state()?;
        let waits = self.link.lock().as_ref().and_then(|link| link.waits_for());
        Some(LinkSnapshot { waits_ms: waits.map(millis), ..link_snapshot(kind, endpoint, link) })
    }

    /// Last note; None before the first.
    pub fn last_note(&self) -> Option<NoteSnapshot> {
        let note = self.note.lock().clone()?;
        Some(NoteSnapshot { at_ms: wall_ms(note.at_ms), ..note })
    }

    /// Values of the registered metrics.
    pub fn metric_snapshots(&self) -> Vec<MetricSnapshot> {
        self.metrics.lock().iter().map(metric).collect()
    }

    /// Quantiles of the registered histograms.
    pub fn timing_snapshots(&self) -> Vec<TimingSnapshot> {
        self.timings.lock().iter().map(timing).collect()
    }
}

fn metric(metric: &Metric) -> MetricSnapshot {
    MetricSnapshot {
        name: metric.name.to_owned(),
        unit: metric.unit.to_owned(),
        kind: metric.kind,
        help: metric.help,
        label: metric
            .label
            .as_ref()
            .map(|(name, value)| LabelSnapshot { name: (*name).to_owned(), value: value.to_string() }),
        value: metric.get(),
        bound: metric.bound(),
    }
}

fn timing(timing: &Timing) -> TimingSnapshot {
    let (label, value) = timing.label;
    TimingSnapshot {
        name: timing.name.to_owned(),
        label: label.to_owned(),
        value: value.to_owned(),
        count: timing.histogram.count(),
        us: timing.histogram.quantiles_us(),
    }
}

fn link_snapshot(kind: &str, endpoint: String, link: Link) -> LinkSnapshot {
    let mut snapshot = LinkSnapshot {
        kind: kind.to_owned(),
        endpoint,
        state: LinkStatus::Idle,
        attempts: None,
        since_ms: None,
        reason: None,
        failure: None,
        help: None,
        retry_in_ms: None,
        waits_ms: None,
    };
    let left = |at: Instant| millis(at.saturating_duration_since(Instant::now()));
    match link {
        Link::Idle => {}
        Link::Connecting { attempt } => {
            snapshot.state = LinkStatus::Connecting;
            snapshot.attempts = Some(attempt);
        }
        Link::Up { since_ms } => {
            snapshot.state = LinkStatus::Up;
            snapshot.since_ms = Some(since_ms);
        }
        Link::Down { since_ms, failure: LinkFailure { reason, kind, help }, retry_at } => {
            snapshot.state = LinkStatus::Down;
            snapshot.since_ms = Some(since_ms);
            snapshot.reason = Some(reason);
            snapshot.failure = Some(kind.name().to_owned());
            snapshot.help = help;
            snapshot.retry_in_ms = Some(left(retry_at));
        }
        Link::Unanswered { since_ms, reason, retry_at } => {
            snapshot.state = LinkStatus::Unanswered;
            snapshot.since_ms = Some(since_ms);
            snapshot.reason = Some(reason);
            snapshot.retry_in_ms = retry_at.map(left);
        }
    }
    snapshot
}
