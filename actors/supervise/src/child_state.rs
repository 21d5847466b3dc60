//! State of one child in its supervision, which its runner and its supervisor write. Others read it without a
//! message to the child.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*},
    },
    time::Duration,
};

use orchestrator_observe::{
    CrashLog, CrashReport, EventKind, EventLog, Exit, ExitSnapshot, State, Vitals, steady_ms, wall_ms,
};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    activity::Activity,
    arbiter::Heartbeat,
    mailbox_stats::MailboxStats,
    pause_state::{PauseSpan, PauseState},
};

/// State of one child: its incarnation, restarts, pause, last exit, mailboxes and arbiter.
#[derive(Debug)]
pub struct ChildState {
    vitals: Arc<Vitals>,
    events: EventLog,
    crashes: CrashLog,
    activity: Arc<Activity>,
    state: AtomicU8,
    incarnation: AtomicU64,
    failed_restarts: AtomicU64,
    planned_restarts: AtomicU64,
    budget_left: AtomicU32,
    /// Start of the current incarnation, by the steady clock.
    started: AtomicU64,
    pause_state: watch::Sender<PauseState>,
    /// Last exit, with its time by the steady clock.
    last_exit: Mutex<Option<ExitSnapshot>>,
    retry_at: Mutex<Option<Instant>>,
    mailboxes: Mutex<Vec<(&'static str, Arc<MailboxStats>)>>,
    heartbeat: OnceLock<Arc<Heartbeat>>,
}

impl ChildState {
    pub(crate) fn new(
        path: &str,
        events: EventLog,
        crashes: CrashLog,
        link_retry_max: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            vitals: Vitals::new(path, events.clone(), link_retry_max),
            events,
            crashes,
            activity: Arc::default(),
            state: AtomicU8::new(State::Stopped as u8),
            incarnation: AtomicU64::new(0),
            failed_restarts: AtomicU64::new(0),
            planned_restarts: AtomicU64::new(0),
            budget_left: AtomicU32::new(0),
            started: AtomicU64::new(0),
            pause_state: watch::Sender::default(),
            last_exit: Mutex::default(),
            retry_at: Mutex::default(),
            mailboxes: Mutex::default(),
            heartbeat: OnceLock::new(),
        })
    }

    /// Metrics, link and work that the child reports.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// Path in the tree.
    pub fn path(&self) -> &str {
        self.vitals.path()
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

    /// Pause by an operator, also while the child drains for a stop.
    pub fn pause(&self) -> Option<PauseSpan> {
        self.pause_state.borrow().by_operator
    }

    /// Waits until the child takes messages: it is not paused, or drains for a stop.
    pub async fn wait_resumed(&self) {
        // Waiting cannot fail: `self` owns the sender.
        let _ = self.pause_state.subscribe().wait_for(|pause_state| !pause_state.is_paused()).await;
    }

    /// Waits until [`ChildState::is_paused`].
    pub async fn wait_paused(&self) {
        let _ = self.pause_state.subscribe().wait_for(|pause_state| pause_state.is_paused()).await;
    }

    /// Last exit; None before the first.
    pub fn last_exit(&self) -> Option<ExitSnapshot> {
        let exit = self.last_exit.lock().clone()?;
        Some(ExitSnapshot { at_ms: wall_ms(exit.at_ms), ..exit })
    }

    /// Time until the child is tried again, while it is given up.
    pub fn retry_in(&self) -> Option<Duration> {
        let retry_at = (*self.retry_at.lock()).filter(|_| self.state() == State::GivenUp)?;
        Some(retry_at.saturating_duration_since(Instant::now()))
    }

    /// Counters of the mailbox and inboxes, by name.
    pub fn mailboxes(&self) -> Vec<(&'static str, Arc<MailboxStats>)> {
        self.mailboxes.lock().clone()
    }

    /// Messages that wait in the mailbox and all inboxes.
    pub fn depth(&self) -> usize {
        self.mailboxes.lock().iter().map(|(_, stats)| stats.depth()).sum()
    }

    /// Duration of the current poll of the child's arbiter, or delay of its heartbeat, whichever is longer.
    pub fn arbiter_silence(&self) -> Duration {
        self.heartbeat.get().map(|heartbeat| heartbeat.silence()).unwrap_or_default()
    }

    /// Name of the child's arbiter.
    pub fn arbiter_name(&self) -> Option<&str> {
        self.heartbeat.get().map(|heartbeat| heartbeat.name())
    }

    /// Waits and panics of the child's code.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn event(&self, kind: EventKind) {
        self.vitals.event(kind);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Release);
    }

    /// Changes the state if it is `from`.
    pub(crate) fn replace_state(&self, from: State, to: State) {
        let _ = self.state.compare_exchange(from as u8, to as u8, AcqRel, Relaxed);
    }

    /// Shows the child, which has ended, as given up until `retry_at`.
    pub(crate) fn give_up(&self, retry_at: Instant) {
        *self.retry_at.lock() = Some(retry_at);
        self.replace_state(State::Stopped, State::GivenUp);
    }

    pub(crate) fn begin(&self, incarnation: u64, planned: bool) {
        self.incarnation.store(incarnation, Release);
        self.started.store(steady_ms(), Relaxed);
        self.pause_state.send_modify(|pause_state| pause_state.draining = false);
        self.vitals.begin_incarnation();
        if incarnation > 1 {
            let restarts = if planned { &self.planned_restarts } else { &self.failed_restarts };
            restarts.fetch_add(1, Relaxed);
        }
        self.set_state(State::Starting);
    }

    /// Records the end of the incarnation. The event comes last, so that its readers see the rest.
    pub(crate) fn end(&self, exit: &Exit, state: State) {
        let in_progress = self.vitals.end_incarnation().filter(|_| exit.is_abnormal()).map(str::to_owned);
        let at_ms = steady_ms();
        self.report_crash(exit, wall_ms(at_ms), in_progress.as_deref());
        let reason = exit.to_string();
        *self.last_exit.lock() = Some(ExitSnapshot {
            kind: exit.kind().to_owned(),
            reason: reason.clone(),
            at_ms,
            in_progress: in_progress.clone(),
        });
        self.set_state(state);
        self.event(EventKind::Exited { incarnation: self.incarnation(), reason, in_progress });
    }

    /// Reports a panic or fault of the incarnation, with the events before it. Other exits are no crashes.
    fn report_crash(&self, exit: &Exit, at_ms: u64, in_progress: Option<&str>) {
        let message = match exit {
            Exit::Panicked(text) => text.clone(),
            Exit::Failed(fault) => fault.to_string(),
            Exit::Normal | Exit::Shutdown | Exit::Killed => String::new(),
        };
        let caught = self.activity.take_panic(&message);
        if !matches!(exit, Exit::Panicked(_) | Exit::Failed(_)) {
            return;
        }
        // The supervisor's branch: a crash often follows from what happened to a sibling.
        let branch = self.path().rsplit_once('/').map_or(self.path(), |(above, _)| above);
        let (location, frames) =
            caught.map_or_else(Default::default, |caught| (caught.location, caught.frames));
        let report = CrashReport {
            number: 0,
            at_ms,
            path: self.path().to_owned(),
            incarnation: self.incarnation(),
            kind: exit.kind().to_owned(),
            message,
            location,
            in_progress: in_progress.map(str::to_owned),
            events: self.events.last_of_branch(branch, CrashReport::EVENTS_MAX),
            samples: None,
            backtrace: Vec::new(),
            left_out: Vec::new(),
        };
        self.crashes.record(report, frames);
    }

    /// Reports that the child did not stop by its deadline, with its unhandled messages.
    pub(crate) fn report_stop_timeout(&self) {
        let depth = self.depth();
        let in_progress = self.vitals.in_progress().map(|(name, _)| name.to_owned());
        tracing::error!(path = self.path(), depth, in_progress, "child did not stop in time");
        self.event(EventKind::StopTimedOut { depth, in_progress });
    }

    pub(crate) fn set_budget_left(&self, left: u32) {
        self.budget_left.store(left, Relaxed);
    }

    pub(crate) fn set_pause(&self, pause: Option<PauseSpan>) {
        self.pause_state.send_modify(|pause_state| pause_state.by_operator = pause);
    }

    pub(crate) fn set_draining(&self) {
        self.pause_state.send_modify(|pause_state| pause_state.draining = true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.pause_state.borrow().draining
    }

    pub(crate) fn set_heartbeat(&self, heartbeat: Arc<Heartbeat>) {
        // Called once: a child keeps its arbiter.
        let _ = self.heartbeat.set(heartbeat);
    }

    pub(crate) fn add_mailbox(&self, name: &'static str, stats: Arc<MailboxStats>) {
        stats.set_owner(self.path().into());
        self.mailboxes.lock().push((name, stats));
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
