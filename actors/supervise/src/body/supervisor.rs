//! Body of a supervisor.
//!
//! Each child has a wanted state (`must_stop`, `must_start`). Exits, commands and timers only change wanted
//! states. The supervisor then stops children from the last to the first, and starts children from the first
//! to the last. It never blocks: an exit during a round adds to the round.

mod changes;
mod restarts;
mod timing;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use orchestrator_observe::{EventKind, Exit};
use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    Backoff, ChildSpec, Limits, StartCx, Strategy, Tree,
    body::{
        Body, Kill,
        entry::{Entry, Status},
    },
    child_state::ChildState,
    command::{Command, CommandRefusal, CommandRequest, PendingCommand},
    limits::RestartWindow,
    runner::{Control, Report, ReportKind},
    spec::Change,
};

enum Mode {
    Idle,
    Booting,
    Steady,
    Stopping(Exit),
}

pub(crate) struct SupervisorBody {
    child: Arc<ChildState>,
    strategy: Strategy,
    limits: Limits,
    retry: Option<Backoff>,
    concurrency: Concurrency,
    dynamic: Option<Dynamic>,
    children: Vec<Entry>,
    reports: mpsc::UnboundedReceiver<Report>,
    commands: mpsc::UnboundedReceiver<CommandRequest>,
    mode: Mode,
    /// Time by which the children are down if the process stops.
    deadline: Option<Instant>,
    /// One for all children, or one for each if they give up alone.
    windows: Vec<RestartWindow>,
    epoch: Instant,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    pending: Vec<PendingCommand>,
}

/// Arguments of [`SupervisorBody::new`].
pub(crate) struct Parts {
    pub(crate) child: Arc<ChildState>,
    pub(crate) strategy: Strategy,
    pub(crate) limits: Limits,
    /// Set if children give up alone.
    pub(crate) retry: Option<Backoff>,
    pub(crate) concurrency: Concurrency,
    pub(crate) dynamic: Option<Dynamic>,
    pub(crate) children: Vec<Entry>,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    pub(crate) commands: mpsc::UnboundedReceiver<CommandRequest>,
}

/// Children that do not wait for each other.
#[derive(Clone, Copy)]
pub(crate) struct Concurrency {
    /// All children start and stop at the same time.
    pub(crate) all: bool,
    /// Neighbouring children that are supervisors stop at the same time.
    pub(crate) branches: bool,
}

impl Concurrency {
    pub(crate) const ALL: Self = Self { all: true, branches: true };
}

/// Parts of a supervisor with dynamic children.
pub(crate) struct Dynamic {
    pub(crate) changes: mpsc::Receiver<Change>,
    pub(crate) max: usize,
    pub(crate) tree: Tree,
    /// Builds the child of this number and adds it to the tree.
    pub(crate) build: Box<dyn Fn(usize, ChildSpec) -> Entry + Send>,
    /// Number of the next child.
    pub(crate) next: usize,
}

impl SupervisorBody {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            child: parts.child,
            strategy: parts.strategy,
            limits: parts.limits,
            retry: parts.retry,
            concurrency: parts.concurrency,
            dynamic: parts.dynamic,
            children: parts.children,
            reports: parts.reports,
            commands: parts.commands,
            mode: Mode::Idle,
            deadline: None,
            windows: Vec::new(),
            epoch: Instant::now(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            stop: Box::pin(CancellationToken::new().cancelled_owned()),
            pending: Vec::new(),
        }
    }

    fn on_report(&mut self, report: Report) {
        let Some(index) = self.position(report.index) else { return };
        let entry = &mut self.children[index];
        // A late report of an incarnation that was replaced or given up.
        if entry.incarnation != report.incarnation || entry.status == Status::Idle {
            return;
        }
        match report.kind {
            ReportKind::Up => {
                if entry.status == Status::Starting {
                    entry.status = Status::Up;
                }
                entry.up_since = Some(Instant::now());
                let up = entry.incarnation;
                if let Some(added) = entry.added.take() {
                    let _ = added.send(Ok(()));
                }
                self.answer(index, Ok(()), |w| w.request.command != Command::Stop && w.incarnation < up);
            }
            ReportKind::Exited(exit) => self.decide_restart(index, &exit),
            ReportKind::ThreadEnded => {}
        }
    }

    /// Index of the child of this number; None if it has left the tree.
    fn position(&self, number: usize) -> Option<usize> {
        self.children.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    /// Answers the pending commands about child `index` for which `which` is true.
    fn answer(
        &mut self,
        index: usize,
        result: Result<(), CommandRefusal>,
        mut which: impl FnMut(&PendingCommand) -> bool,
    ) {
        let number = self.children[index].number;
        let done = self.pending.extract_if(.., |pending| pending.request.index == number && which(pending));
        done.for_each(|pending| pending.request.answer(result));
    }

    /// Stops all children, then ends with `exit`.
    fn end(&mut self, exit: Exit) {
        if let Exit::Failed(fault) = &exit {
            tracing::error!(path = self.child.path(), reason = %fault, "supervisor gives up");
            self.child.event(EventKind::Escalated { reason: fault.to_string() });
        }
        self.children.iter_mut().for_each(Entry::want_end);
        self.refuse_pending();
        self.mode = Mode::Stopping(exit);
    }

    fn refuse_pending(&mut self) {
        self.pending.drain(..).for_each(|pending| pending.request.answer(Err(CommandRefusal::Stopping)));
        // New children stay in the tree and start with their supervisor.
        let added = self.children.iter_mut().filter_map(|entry| entry.added.take());
        added.for_each(|added| drop(added.send(Ok(()))));
    }

    fn on_command(&mut self, request: CommandRequest) {
        if request.is_stale() {
            return;
        }
        if !matches!(self.mode, Mode::Steady | Mode::Booting) {
            return request.answer(Err(CommandRefusal::Stopping));
        }
        let (now, command) = (Instant::now(), request.command);
        let there = self.position(request.index).filter(|index| !self.children[*index].leaves);
        let Some(index) = there else { return request.answer(Err(CommandRefusal::Removed)) };
        let entry = &mut self.children[index];
        match command {
            Command::Pause(_) | Command::Resume | Command::Panic | Command::Freeze => {
                return entry.tell(Control::Command(request));
            }
            Command::Start if entry.stays_running() => {
                return request.answer(Err(CommandRefusal::AlreadyRunning));
            }
            Command::Start => entry.want_start(now, true),
            Command::Stop => entry.want_end(),
            Command::Restart => {
                entry.want_stop();
                entry.want_start(now, true);
                self.restart_siblings(index, now, false);
            }
        }
        let contradicts =
            |other: &PendingCommand| (other.request.command == Command::Stop) != (command == Command::Stop);
        self.answer(index, Err(CommandRefusal::Superseded), contradicts);
        let entry = &self.children[index];
        if command == Command::Stop && entry.status == Status::Idle {
            return request.answer(Ok(()));
        }
        self.pending.push(PendingCommand { request, incarnation: entry.incarnation });
    }

    /// True if children start and stop without waiting for each other: always in a pool or dynamic
    /// supervisor, and between boot and stop of a one_for_one supervisor.
    fn is_independent(&self) -> bool {
        self.concurrency.all || (self.strategy == Strategy::OneForOne && matches!(self.mode, Mode::Steady))
    }

    /// Moves children towards their wanted states; returns the exit once all are down at the end.
    fn advance(&mut self) -> Option<Exit> {
        let must_wait = self.stop_next();
        if let Mode::Stopping(exit) = &self.mode {
            return (!must_wait).then(|| exit.clone());
        }
        if must_wait && !self.is_independent() {
            return None;
        }
        self.start_next();
        let now = Instant::now();
        // Boot ends without children that are given up and, in a dynamic supervisor, without those that back
        // off.
        let later = |e: &Entry| (self.dynamic.is_some() || e.is_given_up()) && e.start_at > now;
        let settled =
            self.children.iter().all(|e| (!e.must_start || later(e)) && e.status != Status::Starting);
        if matches!(self.mode, Mode::Booting) && settled {
            self.mode = Mode::Steady;
        }
        None
    }

    /// Asks the next child to stop, from the last to the first; returns whether any has not ended yet.
    fn stop_next(&mut self) -> bool {
        let now = Instant::now();
        let in_order = !self.is_independent() && self.deadline.is_none_or(|deadline| now < deadline);
        let (mut waiting, mut beside) = (false, false);
        for entry in self.children.iter_mut().rev().filter(|entry| entry.must_stop) {
            beside &= entry.is_supervisor();
            if waiting && in_order && !beside {
                break;
            }
            if entry.status != Status::Stopping {
                entry.stop(now, self.deadline);
            }
            beside = self.concurrency.branches && entry.is_supervisor();
            waiting = true;
        }
        waiting
    }

    /// Starts due children from the first to the last; children that depend on each other wait for the one
    /// before.
    fn start_next(&mut self) {
        let (in_order, now) = (!self.is_independent(), Instant::now());
        for entry in &mut self.children {
            if entry.must_start && entry.start_at <= now && entry.status == Status::Idle {
                entry.start();
            }
            let waits = entry.must_start && !entry.is_given_up();
            if in_order && (waits || entry.status == Status::Starting) {
                break;
            }
        }
    }
}

impl Body for SupervisorBody {
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.stop = Box::pin(cx.stop.cancelled_owned());
        self.mode = Mode::Booting;
        self.deadline = None;
        self.reset_windows();
        let now = Instant::now();
        for entry in self.children.iter_mut().filter(|entry| !entry.leaves) {
            entry.attempt = 0;
            entry.give_ups = 0;
            entry.want_start(now, cx.planned);
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        loop {
            while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
                self.on_report(report);
            }
            while let Poll::Ready(Some(request)) = self.commands.poll_recv(cx) {
                self.on_command(request);
            }
            self.poll_changes(cx);
            let stopping = matches!(self.mode, Mode::Stopping(_));
            if !stopping && self.stop.as_mut().poll(cx).is_ready() {
                self.end(Exit::Shutdown);
            }
            self.give_up_overdue();
            self.remove_ended();
            if let Some(exit) = self.advance() {
                self.mode = Mode::Idle;
                return Poll::Ready(exit);
            }
            self.publish_budget();
            if !self.poll_timer(cx) {
                return Poll::Pending;
            }
        }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) {
        if self.dynamic.is_none() {
            return;
        }
        while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
            self.on_report(report);
        }
        self.poll_changes(cx);
        self.remove_ended();
    }

    fn is_up(&self) -> bool {
        matches!(self.mode, Mode::Steady)
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        let (is_new, now) = (self.deadline != deadline, Instant::now());
        self.deadline = deadline;
        // Children that stop already learn the deadline, too.
        let stopping = self.children.iter_mut().filter(|entry| is_new && entry.status == Status::Stopping);
        stopping.for_each(|entry| entry.stop(now, deadline));
    }

    fn kill(&mut self, exit: Exit) -> Kill {
        let now = Instant::now();
        self.children.iter_mut().for_each(|entry| entry.kill(now));
        self.refuse_pending();
        self.mode = Mode::Stopping(exit);
        Kill::UnderWay
    }
}
