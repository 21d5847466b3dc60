//! What is known of one child without asking it: written by its runner and its handlers, read by tree and metrics.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    Exit,
    arbiter::Pulse,
    event::{EventKind, EventLog, now_ms},
    in_progress::{Hand, WorkGuard},
    intake::Intake,
    link::{Link, LinkEntry, LinkReporter},
    mailbox_stats::MailboxStats,
    metric::{Metric, MetricKind},
    state::State,
    text::sanitize,
    timing::Timing,
};

/// The last exit of a child.
#[derive(Debug, Clone)]
pub struct LastExit {
    /// Why.
    pub exit: Exit,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// The message that was in hand and is lost.
    pub in_progress: Option<&'static str>,
}

/// What a child has last set aside, or given up on, while it went on with the rest.
#[derive(Debug, Clone)]
pub struct Note {
    /// What and why.
    pub text: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Reason why a child that runs does no work now.
#[derive(Debug, Clone)]
pub struct Blocker {
    /// Name of the cause, for programs, for example `no_mapping`.
    pub kind: &'static str,
    /// The cause with its evidence, in one sentence.
    pub text: String,
    /// Command or action that helps.
    pub help: String,
    /// Start, milliseconds since 1970.
    pub since_ms: u64,
}

/// Peers that a metric is kept apart for.
pub const LABELS_MAX: usize = 256;
/// The value of the label under which all further peers are counted.
pub const OTHER_LABEL: &str = "other";

/// Everything known of one child.
#[derive(Debug)]
pub struct Vitals {
    path: Arc<str>,
    events: EventLog,
    state: AtomicU8,
    incarnation: AtomicU64,
    restarts: AtomicU64,
    budget_left: AtomicU32,
    stale: AtomicU64,
    started_ms: AtomicU64,
    intake: watch::Sender<Intake>,
    panic_next: AtomicBool,
    hand: Arc<Hand>,
    last_exit: Mutex<Option<LastExit>>,
    gauges: Mutex<Vec<(&'static str, Arc<MailboxStats>)>>,
    link: Mutex<Option<Arc<LinkEntry>>>,
    metrics: Mutex<Vec<Metric>>,
    note: Mutex<Option<Note>>,
    blocker: Mutex<Option<Blocker>>,
    timings: Mutex<Vec<Timing>>,
    pulse: OnceLock<Arc<Pulse>>,
}

impl Vitals {
    pub(crate) fn new(path: &str, events: EventLog) -> Arc<Self> {
        Arc::new(Self {
            path: path.into(),
            events,
            state: AtomicU8::new(State::Stopped as u8),
            incarnation: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            budget_left: AtomicU32::new(0),
            stale: AtomicU64::new(0),
            started_ms: AtomicU64::new(0),
            intake: watch::Sender::default(),
            panic_next: AtomicBool::new(false),
            hand: Arc::default(),
            last_exit: Mutex::new(None),
            gauges: Mutex::new(Vec::new()),
            link: Mutex::new(None),
            metrics: Mutex::new(Vec::new()),
            note: Mutex::new(None),
            blocker: Mutex::new(None),
            timings: Mutex::new(Vec::new()),
            pulse: OnceLock::new(),
        })
    }

    /// The child's path in the tree.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        State::from_index(self.state.load(Acquire))
    }

    /// Number of the current incarnation, from 1; 0 before the first start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Acquire)
    }

    /// Starts after the first one, planned ones included.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    /// Restarts that its supervisor may still spend in the running period.
    pub fn budget_left(&self) -> u32 {
        self.budget_left.load(Relaxed)
    }

    /// When the current incarnation started, milliseconds since 1970.
    pub fn started_ms(&self) -> u64 {
        self.started_ms.load(Relaxed)
    }

    /// Handles of former incarnations that were dropped.
    pub fn stale(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    /// Is the intake closed by an operator? A stop opens it, so that what waits is drained.
    pub fn is_paused(&self) -> bool {
        !self.intake.borrow().is_open()
    }

    /// Tells whether an operator has paused it, whether it drains or not.
    pub(crate) fn is_held(&self) -> bool {
        self.intake.borrow().paused
    }

    /// The work in progress and since when; of several, the one that lasts longest.
    pub fn in_progress(&self) -> Option<(&'static str, Instant)> {
        self.hand.oldest()
    }

    pub(crate) fn hand(&self) -> &Hand {
        &self.hand
    }

    /// The last exit.
    pub fn last_exit(&self) -> Option<LastExit> {
        self.last_exit.lock().clone()
    }

    /// The mailbox and inboxes, by name.
    pub fn mailboxes(&self) -> Vec<(&'static str, Arc<MailboxStats>)> {
        self.gauges.lock().clone()
    }

    /// The declared metrics.
    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.lock().clone()
    }

    /// The declared histograms of durations.
    pub fn timings(&self) -> Vec<Timing> {
        self.timings.lock().clone()
    }

    /// The edge's connection: kind, endpoint and state, if the child is an edge.
    pub fn link_state(&self) -> Option<(&'static str, String, Link)> {
        let entry = self.link.lock().clone()?;
        let state = entry.state.lock().clone();
        Some((entry.kind, entry.endpoint.clone(), state))
    }

    /// What it last set aside.
    pub fn last_note(&self) -> Option<Note> {
        self.note.lock().clone()
    }

    /// How long the child's arbiter has been in one poll, or its heartbeat is overdue.
    pub fn arbiter_silence(&self) -> std::time::Duration {
        self.pulse.get().map(|pulse| pulse.silence()).unwrap_or_default()
    }

    /// Name of the child's arbiter.
    pub fn arbiter_name(&self) -> Option<&str> {
        self.pulse.get().map(|pulse| pulse.name())
    }

    /// Declares that this child is an edge to `endpoint` (without credentials). Repeating it keeps the state.
    pub fn link(&self, kind: &'static str, endpoint: impl Into<String>) -> LinkReporter {
        let mut slot = self.link.lock();
        let entry = slot.get_or_insert_with(|| LinkEntry::new(kind, endpoint.into()));
        LinkReporter { entry: entry.clone(), path: self.path.clone(), events: self.events.clone() }
    }

    /// Registers a metric, with its help text; the same name gives the same one, so that counters go on over restarts. Those of a
    /// struct are registered by [`metrics!`](crate::metrics).
    pub fn register(
        &self,
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        help: &'static str,
    ) -> Metric {
        let mut metrics = self.metrics.lock();
        if let Some(known) = metrics.iter().find(|metric| metric.is(name, None)) {
            return known.clone();
        }
        let metric = Metric::new(name, unit, kind, help);
        metrics.push(metric.clone());
        metric
    }

    /// Registers a metric of one peer: as [`Vitals::register`], kept apart by the label's value. What peers call themselves is
    /// without bound, so that all beyond [`LABELS_MAX`] of a name share the value [`OTHER_LABEL`].
    pub fn register_labelled(
        &self,
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        help: &'static str,
        label: (&'static str, &str),
    ) -> Metric {
        let mut metrics = self.metrics.lock();
        let mut value = label.1;
        for _ in 0..2 {
            if let Some(known) = metrics.iter().find(|metric| metric.is(name, Some((label.0, value)))) {
                return known.clone();
            }
            let apart = |one: &&Metric| {
                one.name == name && one.label.as_ref().is_some_and(|(_, value)| &**value != OTHER_LABEL)
            };
            if metrics.iter().filter(apart).count() < LABELS_MAX {
                break;
            }
            value = OTHER_LABEL;
        }
        let metric = Metric::new(name, unit, kind, help).labelled(label.0, value);
        metrics.push(metric.clone());
        metric
    }

    /// Drops all metrics of one peer that is gone for good, so that another one may have its place.
    pub fn unregister_labelled(&self, label: (&str, &str)) {
        let of =
            |metric: &Metric| metric.label.as_ref().is_some_and(|(name, value)| (*name, &**value) == label);
        self.metrics.lock().retain(|metric| !of(metric));
    }

    /// Notes what was set aside and why, for who looks at the tree; the last note stays, over restarts too. Count it as well:
    /// a metric tells how often. The text is kept as [`sanitize`] gives it: it may repeat what a peer said.
    pub fn note(&self, text: impl AsRef<str>) {
        *self.note.lock() = Some(Note { text: sanitize(text.as_ref()), at_ms: now_ms() });
    }

    /// Reports why the child does no work although it runs, and what helps; `GET /v1/why` shows it. The start of a cause
    /// that is reported again stays. It ends by [`Vitals::clear_blocker`], or with the incarnation.
    pub fn set_blocker(&self, kind: &'static str, text: impl AsRef<str>, help: impl Into<String>) {
        let mut blocker = self.blocker.lock();
        let since_ms =
            blocker.as_ref().filter(|known| known.kind == kind).map_or_else(now_ms, |known| known.since_ms);
        *blocker = Some(Blocker { kind, text: sanitize(text.as_ref()), help: help.into(), since_ms });
    }

    /// Reports that the child works again, or that nothing keeps it from it.
    pub fn clear_blocker(&self) {
        *self.blocker.lock() = None;
    }

    /// Returns the reported reason why the child does no work.
    pub fn blocker(&self) -> Option<Blocker> {
        self.blocker.lock().clone()
    }

    /// Declares a histogram of durations; the same name and label give the same one, so that it goes on over restarts. All
    /// of one name have the same label, with values of their own: each is a series of one metric.
    pub fn register_timing(
        &self,
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
    ) -> Timing {
        let mut timings = self.timings.lock();
        if let Some(known) = timings.iter().find(|known| known.name() == name && known.label() == label) {
            return known.clone();
        }
        let timing = Timing::new(name, help, label);
        timings.push(timing.clone());
        timing
    }

    /// Names the work in progress until the guard is dropped, so that a stuck child shows what it is stuck in.
    pub fn begin_work(self: &Arc<Self>, name: &'static str) -> WorkGuard {
        let guard = self.hand.take(name);
        assert!(!self.panic_next.swap(false, AcqRel), "injected panic");
        guard
    }

    /// Counts a handle of a former incarnation that was dropped.
    pub(crate) fn count_stale(&self) {
        self.stale.fetch_add(1, Relaxed);
    }

    /// Waits until the intake is open: not paused, or draining.
    pub async fn wait_resumed(&self) {
        // The sender lives in self, so waiting cannot fail.
        let _ = self.intake.subscribe().wait_for(|intake| intake.is_open()).await;
    }

    /// Waits until the intake is closed: paused, and not draining.
    pub async fn wait_paused(&self) {
        let _ = self.intake.subscribe().wait_for(|intake| !intake.is_open()).await;
    }

    pub(crate) fn event(&self, kind: EventKind) {
        self.events.push(&self.path, kind);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Release);
    }

    /// From one state to another; nothing happens when the child has moved on meanwhile.
    pub(crate) fn shift_state(&self, from: State, to: State) {
        let _ = self.state.compare_exchange(from as u8, to as u8, AcqRel, Relaxed);
    }

    pub(crate) fn begin(&self, incarnation: u64) {
        self.incarnation.store(incarnation, Release);
        self.started_ms.store(now_ms(), Relaxed);
        self.intake.send_modify(|intake| intake.draining = false);
        self.panic_next.store(false, Release);
        if incarnation > 1 {
            self.restarts.fetch_add(1, Relaxed);
        }
        self.set_state(State::Starting);
    }

    /// The incarnation ended with `exit` and leaves the child in `state`. The event comes last: who sees it sees the rest.
    pub(crate) fn end(&self, exit: &Exit, state: State) {
        let in_progress = self.hand.take_lost().filter(|_| exit.is_abnormal());
        self.clear_blocker();
        *self.last_exit.lock() = Some(LastExit { exit: exit.clone(), at_ms: now_ms(), in_progress });
        if let Some(link) = self.link.lock().as_ref() {
            link.abandon();
        }
        self.set_state(state);
        self.event(EventKind::Exited {
            incarnation: self.incarnation(),
            reason: exit.to_string(),
            in_progress: in_progress.map(str::to_owned),
        });
    }

    /// What is in hand and in the mailboxes was not done by the deadline.
    pub(crate) fn report_stop_timeout(&self) {
        let depth = self.depth();
        let in_progress = self.in_progress().map(|(name, _)| name.to_owned());
        tracing::error!(path = self.path(), depth, in_progress, "child did not stop in time");
        self.event(EventKind::StopTimedOut { depth, in_progress });
    }

    pub(crate) fn set_budget_left(&self, left: u32) {
        self.budget_left.store(left, Relaxed);
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.intake.send_modify(|intake| intake.paused = paused);
    }

    pub(crate) fn set_draining(&self) {
        self.intake.send_modify(|intake| intake.draining = true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.intake.borrow().draining
    }

    /// Chaos: the thread panics when it next takes work in progress.
    pub(crate) fn panic_at_next_work(&self) {
        self.panic_next.store(true, Release);
    }

    pub(crate) fn set_pulse(&self, pulse: Arc<Pulse>) {
        // A child keeps its arbiter for life; a second call would be a kernel error without consequence.
        let _ = self.pulse.set(pulse);
    }

    pub(crate) fn add_gauge(&self, name: &'static str, gauge: Arc<MailboxStats>) {
        self.gauges.lock().push((name, gauge));
    }

    /// Messages waiting in all of the child's mailboxes.
    pub fn depth(&self) -> usize {
        self.gauges.lock().iter().map(|(_, gauge)| gauge.depth()).sum()
    }

    /// Drops the messages that wait, when their turn comes: they speak of a world that is gone, say a lost connection.
    pub fn purge(&self) {
        let depth = self.gauges.lock().iter().map(|(_, gauge)| gauge.purge()).sum();
        if depth > 0 {
            self.event(EventKind::Purged { depth });
        }
    }
}
