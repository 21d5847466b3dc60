//! State of one child that can be read without asking it: written by its runner and handlers, read by tree
//! and metrics.

mod crash;
mod registration;
mod reports;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*},
    },
    time::{Duration, Instant},
};

use orchestrator_text::sanitize;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    Exit,
    activity::Activity,
    arbiter::Heartbeat,
    blocker::CurrentBlocker,
    clock::{steady_ms, wall_ms},
    crash_log::CrashLog,
    event::{EventKind, EventLog},
    expected_input::ExpectedInput,
    hook_event::HookEvents,
    in_progress::{WorkGuard, WorkInProgress},
    link::{Link, LinkEntry, LinkReporter},
    mailbox_stats::MailboxStats,
    metric::Metric,
    pause_state::{PauseSpan, PauseState},
    snapshot::{ExitSnapshot, NoteSnapshot},
    state::State,
    timing::Timing,
    work_log::WorkLog,
};

/// Most label values of one metric; further ones share [`OTHER_LABEL`].
pub const LABELS_MAX: usize = 256;
/// Label value shared by all peers beyond [`LABELS_MAX`].
pub const OTHER_LABEL: &str = "other";

/// State of one child: incarnation, mailboxes, metrics, link and last exit.
#[derive(Debug)]
pub struct Vitals {
    path: Arc<str>,
    events: EventLog,
    crashes: CrashLog,
    hook_events: HookEvents,
    activity: Arc<Activity>,
    state: AtomicU8,
    incarnation: AtomicU64,
    failed_restarts: AtomicU64,
    planned_restarts: AtomicU64,
    budget_left: AtomicU32,
    /// Start of the current incarnation, by the steady clock.
    started: AtomicU64,
    pause_state: watch::Sender<PauseState>,
    panic_next: AtomicBool,
    work: Arc<WorkInProgress>,
    /// Last exit, with its time by the steady clock.
    last_exit: Mutex<Option<ExitSnapshot>>,
    retry_at: Mutex<Option<tokio::time::Instant>>,
    mailboxes: Mutex<Vec<(&'static str, Arc<MailboxStats>)>>,
    link: Mutex<Option<Arc<LinkEntry>>>,
    link_retry_max: Duration,
    metrics: Mutex<Vec<Metric>>,
    /// Last note, with its time by the steady clock.
    note: Mutex<Option<NoteSnapshot>>,
    blocker: CurrentBlocker,
    work_log: WorkLog,
    timings: Mutex<Vec<Timing>>,
    expected_inputs: Mutex<Vec<ExpectedInput>>,
    heartbeat: OnceLock<Arc<Heartbeat>>,
}

impl Vitals {
    pub(crate) fn new(
        path: &str,
        events: EventLog,
        crashes: CrashLog,
        hook_events: HookEvents,
        retry_max: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            path: path.into(),
            events,
            crashes,
            hook_events,
            activity: Arc::default(),
            state: AtomicU8::new(State::Stopped as u8),
            incarnation: AtomicU64::new(0),
            failed_restarts: AtomicU64::new(0),
            planned_restarts: AtomicU64::new(0),
            budget_left: AtomicU32::new(0),
            started: AtomicU64::new(0),
            pause_state: watch::Sender::default(),
            panic_next: AtomicBool::new(false),
            work: Arc::default(),
            last_exit: Mutex::new(None),
            retry_at: Mutex::new(None),
            mailboxes: Mutex::new(Vec::new()),
            link: Mutex::new(None),
            link_retry_max: retry_max,
            metrics: Mutex::new(Vec::new()),
            note: Mutex::new(None),
            blocker: CurrentBlocker::default(),
            work_log: WorkLog::default(),
            timings: Mutex::new(Vec::new()),
            expected_inputs: Mutex::new(Vec::new()),
            heartbeat: OnceLock::new(),
        })
    }

    /// Path in the tree.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Current state.
    pub fn state(&self) -> State {
        State::from_index(self.state.load(Acquire))
    }

    /// Number of the current incarnation, from 1; 0 before the first start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Acquire)
    }

    /// Restarts because of an exit of the child, a sibling or a supervisor above it.
    pub fn restarts(&self) -> u64 {
        self.failed_restarts.load(Relaxed)
    }

    /// Restarts because of a [`Command`](crate::Command) to the child, a sibling or a supervisor above it.
    pub fn planned_restarts(&self) -> u64 {
        self.planned_restarts.load(Relaxed)
    }

    /// Restarts that the supervisor still allows in the current period.
    pub fn budget_left(&self) -> u32 {
        self.budget_left.load(Relaxed)
    }

    /// Start of the current incarnation, milliseconds since 1970.
    pub fn started_ms(&self) -> u64 {
        wall_ms(self.started.load(Relaxed))
    }

    /// True while the pause of an operator keeps out new messages; a child that drains for a stop takes them.
    pub fn is_paused(&self) -> bool {
        self.pause_state.borrow().is_paused()
    }

    /// Name and start of the oldest work item in progress.
    pub fn in_progress(&self) -> Option<(&'static str, Instant)> {
        self.work.oldest().map(|item| (item.name, item.since))
    }

    /// Waits and panics of the child's code.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn work(&self) -> &WorkInProgress {
        &self.work
    }

    /// Last exit; None before the first.
    pub fn last_exit(&self) -> Option<ExitSnapshot> {
        let exit = self.last_exit.lock().clone()?;
        Some(ExitSnapshot { at_ms: wall_ms(exit.at_ms), ..exit })
    }

    /// Time until the child is tried again, while it is given up.
    pub fn retry_in(&self) -> Option<Duration> {
        let retry_at = (*self.retry_at.lock()).filter(|_| self.state() == State::GivenUp)?;
        Some(retry_at.saturating_duration_since(tokio::time::Instant::now()))
    }

    /// Counters of the mailbox and inboxes, by name.
    pub fn mailboxes(&self) -> Vec<(&'static str, Arc<MailboxStats>)> {
        self.mailboxes.lock().clone()
    }

    /// Registered metrics.
    pub fn metrics(&self) -> Vec<Metric> {
        self.metrics.lock().clone()
    }

    /// Registered histograms of durations.
    pub fn timings(&self) -> Vec<Timing> {
        self.timings.lock().clone()
    }

    /// Time for which the oldest request over the connection awaits its answer.
    pub(crate) fn link_waits(&self) -> Option<Duration> {
        self.link.lock().as_ref()?.waits_for()
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

    /// Last note; None before the first.
    pub fn last_note(&self) -> Option<NoteSnapshot> {
        let note = self.note.lock().clone()?;
        Some(NoteSnapshot { at_ms: wall_ms(note.at_ms), ..note })
    }

    /// Duration of the current poll of the child's arbiter, or delay of its heartbeat, whichever is longer.
    pub fn arbiter_silence(&self) -> Duration {
        self.heartbeat.get().map(|heartbeat| heartbeat.silence()).unwrap_or_default()
    }

    /// Name of the child's arbiter.
    pub fn arbiter_name(&self) -> Option<&str> {
        self.heartbeat.get().map(|heartbeat| heartbeat.name())
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

    /// Reports a hook event to the reader in the process, if there is one that wants its `kind`. The caller
    /// escapes and limits texts in `data` by [`sanitize`].
    pub fn report_hook_event(&self, kind: &'static str, data: impl FnOnce() -> Value) {
        self.hook_events.push(&self.path, kind, data);
    }

    /// Marks the start of a work item; it ends when the guard is dropped. The tree shows the oldest item, and
    /// the exit names it if the child ends meanwhile.
    ///
    /// # Panics
    /// After [`Command::Panic`](crate::Command::Panic) on a thread child.
    pub fn begin_work(self: &Arc<Self>, name: &'static str) -> WorkGuard {
        let guard = self.work.begin(name, Instant::now());
        assert!(!self.panic_next.swap(false, AcqRel), "injected panic");
        guard
    }

    /// Reports that the work in progress advances. A child with a long work item that calls it at least once
    /// a second is not stuck.
    pub fn progress(&self) {
        self.work.progress(Instant::now());
    }

    /// Waits until the child takes messages: it is not paused, or drains for a stop.
    pub async fn wait_resumed(&self) {
        // Waiting cannot fail: `self` owns the sender.
        let _ = self.pause_state.subscribe().wait_for(|pause_state| !pause_state.is_paused()).await;
    }

    /// Waits until [`Vitals::is_paused`].
    pub async fn wait_paused(&self) {
        let _ = self.pause_state.subscribe().wait_for(|pause_state| pause_state.is_paused()).await;
    }

    pub(crate) fn event(&self, kind: EventKind) {
        self.events.push(&self.path, kind);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Release);
    }

    /// Changes the state if it is `from`.
    pub(crate) fn replace_state(&self, from: State, to: State) {
        let _ = self.state.compare_exchange(from as u8, to as u8, AcqRel, Relaxed);
    }

    /// Shows the child, which has ended, as given up until `retry_at`.
    pub(crate) fn give_up(&self, retry_at: tokio::time::Instant) {
        *self.retry_at.lock() = Some(retry_at);
        self.replace_state(State::Stopped, State::GivenUp);
    }

    pub(crate) fn begin(&self, incarnation: u64, planned: bool) {
        self.incarnation.store(incarnation, Release);
        self.started.store(steady_ms(), Relaxed);
        self.pause_state.send_modify(|pause_state| pause_state.draining = false);
        self.panic_next.store(false, Release);
        if incarnation > 1 {
            let restarts = if planned { &self.planned_restarts } else { &self.failed_restarts };
            restarts.fetch_add(1, Relaxed);
        }
        self.set_state(State::Starting);
    }

    /// Records the end of the incarnation. The event comes last, so that its readers see the rest.
    pub(crate) fn end(&self, exit: &Exit, state: State) {
        self.clear_blocker();
        self.set_work_waits(false);
        let in_progress = self.work.take_lost().filter(|_| exit.is_abnormal());
        let at_ms = steady_ms();
        self.report_crash(exit, wall_ms(at_ms), in_progress);
        let (reason, in_progress) = (exit.to_string(), in_progress.map(str::to_owned));
        *self.last_exit.lock() = Some(ExitSnapshot {
            kind: exit.kind().to_owned(),
            reason: reason.clone(),
            at_ms,
            in_progress: in_progress.clone(),
        });
        if let Some(link) = self.link.lock().as_ref() {
            link.reset();
        }
        self.set_state(state);
        self.event(EventKind::Exited { incarnation: self.incarnation(), reason, in_progress });
    }

    /// Reports that the child did not stop by its deadline, with its unhandled messages.
    pub(crate) fn report_stop_timeout(&self) {
        let depth = self.depth();
        let in_progress = self.in_progress().map(|(name, _)| name.to_owned());
        tracing::error!(path = self.path(), depth, in_progress, "child did not stop in time");
        self.event(EventKind::StopTimedOut { depth, in_progress });
    }

    pub(crate) fn set_budget_left(&self, left: u32) {
        self.budget_left.store(left, Relaxed);
    }

    pub(crate) fn set_pause(&self, pause: Option<PauseSpan>) {
        self.pause_state.send_modify(|pause_state| pause_state.by_operator = pause);
    }

    /// Pause by an operator, also while the child drains for a stop.
    pub fn pause(&self) -> Option<PauseSpan> {
        self.pause_state.borrow().by_operator
    }

    pub(crate) fn set_draining(&self) {
        self.pause_state.send_modify(|pause_state| pause_state.draining = true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.pause_state.borrow().draining
    }

    /// Makes the next call of [`Vitals::begin_work`] panic.
    pub(crate) fn panic_at_next_work(&self) {
        self.panic_next.store(true, Release);
    }

    pub(crate) fn set_heartbeat(&self, heartbeat: Arc<Heartbeat>) {
        // Called once: a child keeps its arbiter.
        let _ = self.heartbeat.set(heartbeat);
    }

    pub(crate) fn add_mailbox(&self, name: &'static str, stats: Arc<MailboxStats>) {
        stats.set_owner(self.path.clone());
        self.mailboxes.lock().push((name, stats));
    }

    /// Messages that wait in the mailbox and all inboxes.
    pub fn depth(&self) -> usize {
        self.mailboxes.lock().iter().map(|(_, stats)| stats.depth()).sum()
    }

    /// Drops all waiting messages instead of handling them, for example those about a lost connection.
    /// Inboxes with [`keep_on_purge`](crate::InboxSlot::keep_on_purge) are left alone.
    pub(crate) fn purge(&self) {
        let depth = self.mailboxes.lock().iter().map(|(_, stats)| stats.purge()).sum();
        if depth > 0 {
            self.event(EventKind::Purged { depth });
        }
    }
}
