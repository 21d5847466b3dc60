//! One child's life: starts, drives, pauses, stops and drops its body, and reports to the supervisor.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Exit, OnRestart, Shutdown, StartCx, State, Tree, Vitals,
    body::{Body, BodyCx, Kill},
    command::{Command, FREEZE, Order, OrderError},
    event::EventKind,
    guard::guard,
};

/// What a supervisor tells a runner.
#[derive(Debug)]
pub(crate) enum Control {
    Start {
        incarnation: u64,
    },
    Stop(Shutdown),
    Kill,
    /// Pause, resume or panic; the runner answers.
    Obey(Order),
}

/// What a runner tells its supervisor.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) index: usize,
    pub(crate) incarnation: u64,
    pub(crate) news: News,
}

#[derive(Debug)]
pub(crate) enum News {
    /// The incarnation is up.
    Up,
    /// It ended.
    Exited(Exit),
    /// The thread that was left behind has ended.
    Vanished,
}

/// The fixed facts of one child.
pub(crate) struct Runner {
    pub(crate) index: usize,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) on_restart: OnRestart,
    pub(crate) tree: Tree,
    pub(crate) report: mpsc::UnboundedSender<Report>,
}

/// How driving one incarnation ended.
enum Driven {
    Exited(Exit),
    /// A thread outlived its deadline: reported as killed, still driven until it ends.
    LeftBehind,
    /// The process ends.
    Abandoned,
}

/// What a runner does after an incarnation.
enum Next {
    Idle,
    Start(u64),
    End,
}

enum Step {
    Control(Option<Control>),
    Ended(Exit),
    Progress,
    Deadline,
}

impl Runner {
    /// Runs until the supervisor's end of `control` is gone.
    pub(crate) async fn run(
        self,
        make: Box<dyn FnOnce(BodyCx) -> Box<dyn Body> + Send>,
        mut control: mpsc::UnboundedReceiver<Control>,
    ) {
        let mut body = make(BodyCx { vitals: self.vitals.clone() });
        let mut next = Next::Idle;
        loop {
            let incarnation = match next {
                Next::Start(incarnation) => incarnation,
                Next::Idle => match idle(body.as_mut(), &mut control).await {
                    Some(Control::Start { incarnation }) => incarnation,
                    Some(order) => {
                        self.obey_idle(order);
                        continue;
                    }
                    None => break,
                },
                Next::End => break,
            };
            next = self.live(body.as_mut(), &mut control, incarnation).await;
        }
        // A body whose destructor panics must not take the arbiter with it.
        let _ = guard(|| drop(body));
    }

    fn obey_idle(&self, control: Control) {
        match control {
            Control::Obey(order) if order.verb.is_chaos() => order.answer(Err(OrderError::NotRunning)),
            Control::Obey(order) => self.obey(order),
            // Nothing runs: there is nothing to stop.
            Control::Start { .. } | Control::Stop(_) | Control::Kill => {}
        }
    }

    /// Carries out a pause, a resume or a freeze.
    fn obey(&self, order: Order) {
        match order.verb {
            Command::Pause => {
                self.vitals.set_paused(true);
                self.vitals.shift_state(State::Running, State::Paused);
                self.vitals.event(EventKind::Paused);
            }
            Command::Resume => {
                self.vitals.set_paused(false);
                self.vitals.shift_state(State::Paused, State::Running);
                self.vitals.event(EventKind::Resumed);
            }
            _ => {}
        }
        let verb = order.verb;
        order.answer(Ok(()));
        if verb == Command::Freeze {
            std::thread::sleep(FREEZE);
        }
    }

    /// One incarnation from start to end.
    async fn live(
        &self,
        body: &mut dyn Body,
        control: &mut mpsc::UnboundedReceiver<Control>,
        incarnation: u64,
    ) -> Next {
        if incarnation > 1 && self.on_restart == OnRestart::Purge {
            self.vitals.purge();
        }
        self.vitals.begin(incarnation);
        let stop = CancellationToken::new();
        // However this incarnation ends, what it left behind (a thread) is told.
        let _told = stop.clone().drop_guard();
        let cx = StartCx {
            index: self.index,
            vitals: self.vitals.clone(),
            stop: stop.clone(),
            incarnation,
            tree: self.tree.clone(),
        };
        let driven = match body.start(cx) {
            Ok(()) => self.drive(body, control, &stop, incarnation).await,
            Err(exit) => Driven::Exited(exit),
        };
        match driven {
            Driven::Exited(exit) => {
                self.finish(incarnation, exit, State::Stopped);
                Next::Idle
            }
            Driven::LeftBehind => {
                self.finish(incarnation, Exit::Killed, State::Stuck);
                let next = self.outlive(body, control).await;
                self.vitals.set_state(State::Stopped);
                self.tell(incarnation, News::Vanished);
                next
            }
            Driven::Abandoned => Next::End,
        }
    }

    /// Waits for the end of a thread that was left behind: no second one is started beside it.
    async fn outlive(&self, body: &mut dyn Body, control: &mut mpsc::UnboundedReceiver<Control>) -> Next {
        let mut next = Next::Idle;
        loop {
            let order = tokio::select! {
                _ended = poll_fn(|cx| body.poll(cx)) => return next,
                order = control.recv() => order,
            };
            match order {
                Some(Control::Start { incarnation }) => next = Next::Start(incarnation),
                Some(Control::Stop(_) | Control::Kill) => {
                    if let Next::Start(incarnation) = std::mem::replace(&mut next, Next::Idle) {
                        self.tell(incarnation, News::Exited(Exit::Killed));
                    }
                }
                Some(order) => self.obey_idle(order),
                None => return Next::End,
            }
        }
    }

    fn finish(&self, incarnation: u64, exit: Exit, state: State) {
        match &exit {
            Exit::Normal | Exit::Shutdown => tracing::debug!(path = self.vitals.path(), %exit, "child ended"),
            _ => tracing::warn!(path = self.vitals.path(), %exit, "child ended"),
        }
        self.vitals.end(&exit, state);
        self.tell(incarnation, News::Exited(exit));
    }

    fn tell(&self, incarnation: u64, news: News) {
        // The supervisor's end is dropped only when the process ends.
        let _ = self.report.send(Report { index: self.index, incarnation, news });
    }

    async fn drive(
        &self,
        body: &mut dyn Body,
        control: &mut mpsc::UnboundedReceiver<Control>,
        stop: &CancellationToken,
        incarnation: u64,
    ) -> Driven {
        let mut up = body.is_up();
        if up {
            self.announce(incarnation);
        }
        let mut deadline: Option<Instant> = None;
        loop {
            let stopping = stop.is_cancelled();
            // An incarnation that starts paused still has to come up.
            let polled = !up || !self.vitals.is_paused() || body.runs_while_paused();
            let step = tokio::select! {
                biased;
                order = control.recv() => Step::Control(order),
                step = poll_fn(|cx| Self::poll_body(body, cx, up)), if polled => step,
                () = sleep_until(deadline), if deadline.is_some() => Step::Deadline,
            };
            let kill = match step {
                Step::Ended(exit) if stopping && exit == Exit::Normal => {
                    return Driven::Exited(Exit::Shutdown);
                }
                Step::Ended(exit) => {
                    // Whoever finishes well before its first wait has been up.
                    if !up && !stopping && !exit.is_abnormal() {
                        self.announce(incarnation);
                    }
                    return Driven::Exited(exit);
                }
                Step::Progress => {
                    up = true;
                    self.announce(incarnation);
                    false
                }
                Step::Deadline => {
                    deadline = None;
                    self.vitals.report_stop_timeout();
                    true
                }
                Step::Control(Some(Control::Kill)) => true,
                Step::Control(Some(Control::Stop(shutdown))) => {
                    if let Shutdown::After(limit) = shutdown {
                        deadline = Some(Instant::now() + limit);
                    }
                    self.begin_stop(stop);
                    shutdown == Shutdown::Kill
                }
                Step::Control(Some(Control::Obey(order))) => {
                    let panicked = (order.verb == Command::Panic).then(|| self.panic(body)).flatten();
                    self.obey(order);
                    if let Some(exit) = panicked {
                        return Driven::Exited(exit);
                    }
                    false
                }
                Step::Control(Some(Control::Start { .. })) => {
                    debug_assert!(false, "a supervisor starts a child only after its exit");
                    false
                }
                Step::Control(None) => {
                    let _ = body.kill(Exit::Killed);
                    return Driven::Abandoned;
                }
            };
            if kill && let Some(driven) = self.kill(body, stop) {
                return driven;
            }
        }
    }

    /// Drops the incarnation; None when it takes a moment and `poll` tells.
    fn kill(&self, body: &mut dyn Body, stop: &CancellationToken) -> Option<Driven> {
        self.vitals.hand().lose();
        // A thread cannot be dropped, but it can be told.
        stop.cancel();
        match body.kill(Exit::Killed) {
            Kill::Done => Some(Driven::Exited(Exit::Killed)),
            Kill::UnderWay => None,
            Kill::Impossible => Some(Driven::LeftBehind),
        }
    }

    /// Makes the incarnation panic: at once, or, for a thread, at the next work that it begins.
    fn panic(&self, body: &mut dyn Body) -> Option<Exit> {
        let exit = guard(|| -> () { panic!("injected panic") }).err()?;
        self.vitals.hand().lose();
        match body.kill(exit.clone()) {
            Kill::Done => return Some(exit),
            Kill::UnderWay => {}
            Kill::Impossible => self.vitals.panic_at_next_work(),
        }
        None
    }

    fn poll_body(body: &mut dyn Body, cx: &mut std::task::Context<'_>, up: bool) -> Poll<Step> {
        match body.poll(cx) {
            Poll::Ready(exit) => Poll::Ready(Step::Ended(exit)),
            Poll::Pending if !up && body.is_up() => Poll::Ready(Step::Progress),
            Poll::Pending => Poll::Pending,
        }
    }

    fn announce(&self, incarnation: u64) {
        let paused = self.vitals.is_paused();
        self.vitals.shift_state(State::Starting, if paused { State::Paused } else { State::Running });
        self.vitals.event(EventKind::Started { incarnation });
        self.tell(incarnation, News::Up);
    }

    fn begin_stop(&self, stop: &CancellationToken) {
        self.vitals.set_draining();
        self.vitals.set_state(State::Stopping);
        stop.cancel();
    }
}

/// Waits for the next control while nothing runs.
async fn idle(body: &mut dyn Body, control: &mut mpsc::UnboundedReceiver<Control>) -> Option<Control> {
    poll_fn(|cx| {
        body.poll_vacant(cx);
        control.poll_recv(cx)
    })
    .await
}

async fn sleep_until(deadline: Option<Instant>) {
    let far = Instant::now() + Duration::from_secs(86_400 * 365);
    tokio::time::sleep_until(deadline.unwrap_or(far)).await;
}
