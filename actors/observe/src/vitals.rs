//! Reports of one child, in memory that others read without a message to it.

mod registration;
mod reports;
mod snapshots;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_text::sanitize;
use parking_lot::Mutex;

use crate::{
    blocker::CurrentBlocker,
    clock::steady_ms,
    event::{EventKind, EventLog},
    expected_input::ExpectedInput,
    in_progress::{WorkGuard, WorkInProgress},
    link::{Link, LinkEntry, LinkReporter},
    metric::Metric,
    snapshot::NoteSnapshot,
    timing::Timing,
    work_log::WorkLog,
};

/// Most label values of one metric; further ones share [`OTHER_LABEL`].
pub const LABELS_MAX: usize = 256;
/// Label value shared by all peers beyond [`LABELS_MAX`].
pub const OTHER_LABEL: &str = "other";

/// Reports of one child: its work, metrics, link, notes and blockers.
#[derive(Debug)]
pub struct Vitals {
    path: Arc<str>,
    events: EventLog,
    work: Arc<WorkInProgress>,
    work_log: WorkLog,
    metrics: Mutex<Vec<Metric>>,
    timings: Mutex<Vec<Timing>>,
    link: Mutex<Option<Arc<LinkEntry>>>,
    link_retry_max: Duration,
    /// Last note, with its time by the steady clock.
    note: Mutex<Option<NoteSnapshot>>,
    blocker: CurrentBlocker,
    expected_inputs: Mutex<Vec<ExpectedInput>>,
}

impl Vitals {
    /// Creates the vitals of the child at `path`, whose events go to `events`. `link_retry_max` is the
    /// longest delay between two attempts of its link.
    pub fn new(path: &str, events: EventLog, link_retry_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            path: path.into(),
            events,
            work: Arc::default(),
            work_log: WorkLog::default(),
            metrics: Mutex::default(),
            timings: Mutex::default(),
            link: Mutex::default(),
            link_retry_max,
            note: Mutex::default(),
            blocker: CurrentBlocker::default(),
            expected_inputs: Mutex::default(),
        })
    }

    /// Path in the tree.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Adds an event of the child to the log.
    pub fn event(&self, kind: EventKind) {
        self.events.push(&self.path, kind);
    }

    /// Name and start of the oldest work item in progress.
    pub fn in_progress(&self) -> Option<(&'static str, Instant)> {
        self.work.oldest().map(|item| (item.name, item.since))
    }

    /// Registered metrics.
    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.lock().clone()
    }

    /// Registered histograms of durations.
    pub fn timings(&self) -> Vec<Timing> {
        self.timings.lock().clone()
    }

    /// Kind, endpoint and state of the connection; None if the child has none. Records an event if the peer
    /// has become silent, or answers again.
    pub fn link_state(&self) -> Option<(&'static str, String, Link)> {
        let entry = self.link.lock().clone()?;
        let state = entry.state();
        if let Some(event) = entry.silence_event(&state) {
            match &event {
                EventKind::LinkUnanswered { reason } => {
                    tracing::warn!(path = &*self.path, kind = entry.kind, reason, "link unanswered");
                }
                _ => tracing::info!(path = &*self.path, kind = entry.kind, "link answers again"),
            }
            self.event(event);
        }
        Some((entry.kind, entry.endpoint.clone(), state))
    }

    /// Declares the connection to `endpoint`, which must not have credentials. A later call keeps the state.
    pub fn link(&self, kind: &'static str, endpoint: impl Into<String>) -> LinkReporter {
        let mut slot = self.link.lock();
        let entry = slot.get_or_insert_with(|| LinkEntry::new(kind, endpoint.into()));
        let (path, events) = (self.path.clone(), self.events.clone());
        LinkReporter { entry: entry.clone(), path, events, retry_max: self.link_retry_max }
    }

    /// Longest delay between two attempts of any link in the tree.
    pub fn link_retry_max(&self) -> Duration {
        self.link_retry_max
    }

    /// Records a note: an item that the child set aside, and the reason. The tree shows the last note, also
    /// after restarts; count the items in a metric. The text is escaped and limited by [`sanitize`].
    pub fn note(&self, text: impl AsRef<str>) {
        *self.note.lock() = Some(NoteSnapshot { text: sanitize(text.as_ref()), at_ms: steady_ms() });
    }

    /// Marks the start of a work item; it ends when the guard is dropped. The tree shows the oldest item, and
    /// the exit names it if the child ends meanwhile.
    ///
    /// # Panics
    /// After [`Vitals::panic_at_next_work`].
    pub fn begin_work(&self, name: &'static str) -> WorkGuard {
        self.work.begin(name, Instant::now())
    }

    /// Reports that the work in progress advances. A child with a long work item that calls it at least once
    /// a second is not stuck.
    pub fn progress(&self) {
        self.work.progress(Instant::now());
    }

    /// Makes the next call of [`Vitals::begin_work`] in this incarnation panic, for drills.
    pub fn panic_at_next_work(&self) {
        self.work.set_panics(true);
    }

    /// Marks the oldest work item in progress as lost: the incarnation is about to be dropped.
    pub fn mark_work_lost(&self) {
        self.work.mark_lost();
    }

    /// Prepares for a new incarnation.
    pub fn begin_incarnation(&self) {
        self.work.set_panics(false);
    }

    /// Ends what only the incarnation has reported: its blocker, and the state and requests of its link. The
    /// work item that was in progress, if one was lost.
    pub fn end_incarnation(&self) -> Option<&'static str> {
        self.clear_blocker();
        self.set_work_waits(false);
        if let Some(link) = self.link.lock().as_ref() {
            link.reset();
        }
        self.work.take_lost()
    }
}
