//! Runner of one child: starts, drives, pauses, stops and drops its body, and reports to the supervisor.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use orchestrator_observe::{EventKind, Exit, State};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    OnRestart, Shutdown, StartCx, Tree,
    activity::Scope,
    body::{Body, BodyCx, Kill},
    child_state::ChildState,
    command::{Command, CommandRefusal, CommandRequest, FREEZE},
    guard::guard,
};

/// Message from a supervisor to a runner.
#[derive(Debug)]
pub(crate) enum Control {
    Start {
        incarnation: u64,
        /// By command, not after a failure.
        planned: bool,
    },
    Stop {
        shutdown: Shutdown,
        /// For supervisors: time by which their children are down.
        deadline: Option<Instant>,
    },
    Kill,
    /// Pause, resume, panic or freeze; the runner answers.
    Command(CommandRequest),
}

/// Message from a runner to its supervisor.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) index: usize,
    pub(crate) incarnation: u64,
    pub(crate) kind: ReportKind,
}

#[derive(Debug)]
pub(crate) enum ReportKind {
    Up,
    /// The incarnation ended.
    Exited(Exit),
    /// A thread that was left behind has ended.
    ThreadEnded,
}

/// Runner of one child.
pub(crate) struct Runner {
    pub(crate) index: usize,
    /// Marks the child's code, wherever this runner calls it.
    pub(crate) scope: Scope,
    pub(crate) child: Arc<ChildState>,
    pub(crate) on_restart: OnRestart,
    pub(crate) tree: Tree,
    pub(crate) report: mpsc::UnboundedSender<Report>,
}

/// End of one incarnation.
enum IncarnationEnd {
    Exited(Exit),
    /// A thread outlived its deadline: it is reported as killed and awaited.
    ThreadLeftBehind,
    /// The supervisor is gone: the process ends.
    Abandoned,
}

/// Next step of a runner after an incarnation.
enum NextStep {
    Idle,
    Start { incarnation: u64, planned: bool },
    End,
}

enum Step {
    Control(Option<Control>),
    Ended(Exit),
    Progress,
    Deadline,
    /// The time of an operator's pause is over.
    PauseEnds,
}

impl Runner {
    /// Runs until the sender of `control` is dropped.
    pub(crate) async fn run(
        self,
        make: Box<dyn FnOnce(BodyCx) -> Box<dyn Body> + Send>,
        mut control: mpsc::UnboundedReceiver<Control>,
    ) {
        let mut body = make(BodyCx { child: self.child.clone() });
        let mut next = NextStep::Idle;
        loop {
            let (incarnation, planned) = match next {
                NextStep::Start { incarnation, planned } => (incarnation, planned),
                NextStep::Idle => match idle(body.as_mut(), &mut control).await {
                    Some(Control::Start { incarnation, planned }) => (incarnation, planned),
                    Some(request) => {
                        self.execute_idle(request);
                        continue;
                    }
                    None => break,
                },
                NextStep::End => break,
            };
            next = self.run_incarnation(body.as_mut(), &mut control, incarnation, planned).await;
        }
        // A panic in the body's destructor must not end the arbiter.
        let _ = guard(|| drop(body));
    }

    fn execute_idle(&self, control: Control) {
        match control {
            Control::Command(request) if request.command.is_chaos() => {
                request.answer(Err(CommandRefusal::NotRunning))
            }
            Control::Command(request) => self.execute(request),
            // Nothing runs.
            Control::Start { .. } | Control::Stop { .. } | Control::Kill => {}
        }
    }

    /// Carries out a pause, a resume or a freeze.
    fn execute(&self, request: CommandRequest) {
        match request.command {
            Command::Pause(pause) => {
                self.child.set_pause(Some(pause));
                self.child.replace_state(State::Running, State::Paused);
                self.child.event(EventKind::Paused);
            }
            Command::Resume => self.resume(),
            _ => {}
        }
        let command = request.command;
        request.answer(Ok(()));
        if command == Command::Freeze {
            std::thread::sleep(FREEZE);
        }
    }

    fn resume(&self) {
        self.child.set_pause(None);
        self.child.replace_state(State::Paused, State::Running);
        self.child.event(EventKind::Resumed);
    }

    /// Runs one incarnation from start to end.
    async fn run_incarnation(
        &self,
        body: &mut dyn Body,
        control: &mut mpsc::UnboundedReceiver<Control>,
        incarnation: u64,
        planned: bool,
    ) -> NextStep {
        if incarnation > 1 && self.on_restart == OnRestart::Purge {
            self.child.purge();
        }
        self.child.begin(incarnation, planned);
        let stop = CancellationToken::new();
        // However the incarnation ends, a thread that is left behind is asked to stop.
        let _stop_at_end = stop.clone().drop_guard();
        let cx = StartCx {
            index: self.index,
            vitals: self.child.vitals().clone(),
            child: self.child.clone(),
            stop: stop.clone(),
            incarnation,
            planned,
            tree: self.tree.clone(),
        };
        let end = match self.scope.run(|| body.start(cx)) {
            Ok(()) => self.drive(body, control, &stop, incarnation).await,
            Err(exit) => IncarnationEnd::Exited(exit),
        };
        match end {
            IncarnationEnd::Exited(exit) => {
                self.finish(incarnation, exit, State::Stopped);
                NextStep::Idle
            }
            IncarnationEnd::ThreadLeftBehind => {
                self.finish(incarnation, Exit::Killed, State::Stuck);
                let next = self.wait_for_thread(body, control).await;
                self.child.set_state(State::Stopped);
                self.send_report(incarnation, ReportKind::ThreadEnded);
                next
            }
            IncarnationEnd::Abandoned => NextStep::End,
        }
    }

    /// Waits for the end of a thread that was left behind; no second one is started before.
    async fn wait_for_thread(
        &self,
        body: &mut dyn Body,
        control: &mut mpsc::UnboundedReceiver<Control>,
    ) -> NextStep {
        let mut next = NextStep::Idle;
        loop {
            let request = tokio::select! {
                _ended = poll_fn(|cx| body.poll(cx)) => return next,
                request = control.recv() => request,
            };
            match request {
                Some(Control::Start { incarnation, planned }) => {
                    next = NextStep::Start { incarnation, planned };
                }
                Some(Control::Stop { .. } | Control::Kill) => {
                    if let NextStep::Start { incarnation, .. } = std::mem::replace(&mut next, NextStep::Idle)
                    {
                        self.send_report(incarnation, ReportKind::Exited(Exit::Killed));
                    }
                }
                Some(request) => self.execute_idle(request),
                None => return NextStep::End,
            }
        }
    }

    fn finish(&self, incarnation: u64, exit: Exit, state: State) {
        match &exit {
            Exit::Normal | Exit::Shutdown => tracing::debug!(path = self.child.path(), %exit, "child ended"),
            _ => tracing::warn!(path = self.child.path(), %exit, "child ended"),
        }
        self.child.end(&exit, state);
        self.send_report(incarnation, ReportKind::Exited(exit));
    }

    fn send_report(&self, incarnation: u64, kind: ReportKind) {
        // The receiver is dropped only when the process ends.
        let _ = self.report.send(Report { index: self.index, incarnation, kind });
    }

    async fn drive(
        &self,
        body: &mut dyn Body,
        control: &mut mpsc::UnboundedReceiver<Control>,
        stop: &CancellationToken,
        incarnation: u64,
    ) -> IncarnationEnd {
        let mut up = body.is_up();
        if up {
            self.report_up(incarnation);
        }
        let mut deadline: Option<Instant> = None;
        loop {
            let stopping = stop.is_cancelled();
            // An incarnation that starts paused is polled until it is up.
            let polled = !up || !self.child.is_paused() || body.runs_while_paused();
            let pause = self.child.pause().filter(|pause| pause.until_ms.is_some());
            let step = tokio::select! {
                biased;
                request = control.recv() => Step::Control(request),
                () = pause.unwrap_or_default().wait_over(), if pause.is_some() => Step::PauseEnds,
                step = poll_fn(|cx| self.poll_body(body, cx, up)), if polled => step,
                () = sleep_until(deadline), if deadline.is_some() => Step::Deadline,
            };
            let kill = match step {
                Step::Ended(exit) if stopping && exit == Exit::Normal => {
                    return IncarnationEnd::Exited(Exit::Shutdown);
                }
                Step::Ended(exit) => {
                    // An incarnation that finishes normally before its first wait was up.
                    if !up && !stopping && !exit.is_abnormal() {
                        self.report_up(incarnation);
                    }
                    return IncarnationEnd::Exited(exit);
                }
                Step::Progress => {
                    up = true;
                    self.report_up(incarnation);
                    false
                }
                Step::Deadline => {
                    deadline = None;
                    self.child.report_stop_timeout();
                    true
                }
                Step::PauseEnds => {
                    self.resume();
                    false
                }
                Step::Control(Some(Control::Kill)) => true,
                Step::Control(Some(Control::Stop { shutdown, deadline: for_children })) => {
                    body.set_deadline(for_children);
                    if let Shutdown::After(limit) = shutdown {
                        deadline = Some(Instant::now() + limit);
                    }
                    self.begin_stop(stop);
                    false
                }
                Step::Control(Some(Control::Command(request))) => {
                    let panicked = (request.command == Command::Panic).then(|| self.panic(body)).flatten();
                    self.execute(request);
                    if let Some(exit) = panicked {
                        return IncarnationEnd::Exited(exit);
                    }
                    false
                }
                Step::Control(Some(Control::Start { .. })) => {
                    debug_assert!(false, "a supervisor starts a child only after its exit");
                    false
                }
                Step::Control(None) => {
                    let _ = body.kill(Exit::Killed);
                    return IncarnationEnd::Abandoned;
                }
            };
            if kill && let Some(end) = self.kill(body, stop) {
                return end;
            }
        }
    }

    /// Drops the incarnation; None if `poll` returns the exit later.
    fn kill(&self, body: &mut dyn Body, stop: &CancellationToken) -> Option<IncarnationEnd> {
        self.child.vitals().mark_work_lost();
        // A thread cannot be dropped, only asked to stop.
        stop.cancel();
        match self.scope.run(|| body.kill(Exit::Killed)) {
            Kill::Done => Some(IncarnationEnd::Exited(Exit::Killed)),
            Kill::UnderWay => None,
            Kill::Impossible => Some(IncarnationEnd::ThreadLeftBehind),
        }
    }

    /// Makes the incarnation panic: at once, or in a thread at its next work item.
    fn panic(&self, body: &mut dyn Body) -> Option<Exit> {
        let exit = self.scope.run(|| guard(|| -> () { panic!("injected panic") })).err()?;
        self.child.vitals().mark_work_lost();
        match self.scope.run(|| body.kill(exit.clone())) {
            Kill::Done => return Some(exit),
            Kill::UnderWay => {}
            Kill::Impossible => self.child.vitals().panic_at_next_work(),
        }
        None
    }

    fn poll_body(&self, body: &mut dyn Body, cx: &mut std::task::Context<'_>, up: bool) -> Poll<Step> {
        match self.scope.run(|| body.poll(cx)) {
            Poll::Ready(exit) => Poll::Ready(Step::Ended(exit)),
            Poll::Pending if !up && body.is_up() => Poll::Ready(Step::Progress),
            Poll::Pending => Poll::Pending,
        }
    }

    fn report_up(&self, incarnation: u64) {
        let paused = self.child.is_paused();
        self.child.replace_state(State::Starting, if paused { State::Paused } else { State::Running });
        self.child.event(EventKind::Started { incarnation });
        self.send_report(incarnation, ReportKind::Up);
    }

    fn begin_stop(&self, stop: &CancellationToken) {
        self.child.set_draining();
        self.child.set_state(State::Stopping);
        stop.cancel();
    }
}

/// Waits for the next control message while nothing runs.
async fn idle(body: &mut dyn Body, control: &mut mpsc::UnboundedReceiver<Control>) -> Option<Control> {
    poll_fn(|cx| {
        body.poll_idle(cx);
        control.poll_recv(cx)
    })
    .await
}

async fn sleep_until(deadline: Option<Instant>) {
    let far = Instant::now() + Duration::from_secs(86_400 * 365);
    tokio::time::sleep_until(deadline.unwrap_or(far)).await;
}
