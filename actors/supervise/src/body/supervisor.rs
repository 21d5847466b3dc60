//! A supervisor: a child like any other, whose incarnation is the life of its children.
//!
//! It holds wishes (`must_stop`, `must_start`) and works them off in order: stops from the last child to the first,
//! then starts from the first to the last. Exits, orders and timers only change wishes, so that an exit in the middle
//! of a round simply widens the round, and a supervisor never blocks.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, Sleep},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    Exit, Fault, Limits, Restart, StartCx, State, Strategy, Vitals,
    body::Body,
    event::EventKind,
    limits::RestartWindow,
    order::{Order, OrderError, Verb, Waiter},
    runner::{Control, News, Report},
};

/// One child as its supervisor sees it.
pub(crate) struct Entry {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) control: mpsc::UnboundedSender<Control>,
    pub(crate) restart: Restart,
    pub(crate) status: Status,
    pub(crate) must_stop: bool,
    pub(crate) must_start: bool,
    pub(crate) start_at: Instant,
    pub(crate) attempt: u32,
    pub(crate) up_since: Option<Instant>,
    pub(crate) incarnation: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Starting,
    Up,
    Stopping,
}

enum Mode {
    Vacant,
    Booting,
    Steady,
    Ending(Exit),
}

pub(crate) struct SupervisorBody {
    vitals: Arc<Vitals>,
    strategy: Strategy,
    limits: Limits,
    at_once: bool,
    children: Vec<Entry>,
    reports: mpsc::UnboundedReceiver<Report>,
    orders: mpsc::UnboundedReceiver<Order>,
    mode: Mode,
    window: RestartWindow,
    epoch: Instant,
    timer: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    waiters: Vec<Waiter>,
}

/// What a supervisor is built of.
pub(crate) struct Parts {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) strategy: Strategy,
    pub(crate) limits: Limits,
    /// A pool: its children stop and start at once instead of one after the other.
    pub(crate) at_once: bool,
    pub(crate) children: Vec<Entry>,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
}

impl Entry {
    pub(crate) fn new(
        vitals: Arc<Vitals>,
        control: mpsc::UnboundedSender<Control>,
        restart: Restart,
    ) -> Self {
        Self {
            vitals,
            control,
            restart,
            status: Status::Idle,
            must_stop: false,
            must_start: false,
            start_at: Instant::now(),
            attempt: 0,
            up_since: None,
            incarnation: 0,
        }
    }

    pub(crate) fn tell(&self, control: Control) {
        // A runner ends only after its supervisor.
        let _ = self.control.send(control);
    }

    fn want_stop(&mut self) {
        self.must_stop = self.status != Status::Idle;
    }

    fn want_start(&mut self, at: Instant) {
        self.must_start = true;
        self.start_at = at;
    }
}

impl SupervisorBody {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            vitals: parts.vitals,
            strategy: parts.strategy,
            limits: parts.limits,
            at_once: parts.at_once,
            children: parts.children,
            reports: parts.reports,
            orders: parts.orders,
            mode: Mode::Vacant,
            window: RestartWindow::new(parts.limits),
            epoch: Instant::now(),
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            stop: Box::pin(CancellationToken::new().cancelled_owned()),
            waiters: Vec::new(),
        }
    }

    fn on_report(&mut self, report: Report) {
        let entry = &mut self.children[report.index];
        if entry.incarnation != report.incarnation {
            return;
        }
        match report.news {
            News::Up => {
                if entry.status == Status::Starting {
                    entry.status = Status::Up;
                }
                entry.up_since = Some(Instant::now());
            }
            News::Exited(exit) => self.on_exit(report.index, &exit),
        }
    }

    fn on_exit(&mut self, index: usize, exit: &Exit) {
        let booting = matches!(self.mode, Mode::Booting);
        let entry = &mut self.children[index];
        let was_up = entry.up_since.take();
        let wanted = std::mem::take(&mut entry.must_stop);
        entry.status = Status::Idle;
        if wanted || matches!(self.mode, Mode::Ending(_)) {
            return;
        }
        if booting && was_up.is_none() {
            let id = entry.vitals.path().to_owned();
            return self.end(Exit::Failed(Fault::new(format!("{id} did not start: {exit}"))));
        }
        if !entry.restart.applies_to(exit) {
            return;
        }
        let now = Instant::now();
        if was_up.is_some_and(|since| now - since > self.limits.period) {
            entry.attempt = 0;
        }
        let delay = self.limits.backoff.delay(entry.attempt, fastrand::f64());
        entry.attempt = entry.attempt.saturating_add(1);
        if self.window.record(now - self.epoch) {
            let (path, limits) = (entry.vitals.path().to_owned(), self.limits);
            let text = format!(
                "more than {} restarts in {:?}, the last for {path}: {exit}",
                limits.intensity, limits.period
            );
            return self.end(Exit::Failed(Fault::new(text)));
        }
        entry.vitals.set_state(State::BackingOff);
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        entry.vitals.event(EventKind::RestartScheduled { delay_ms });
        entry.want_start(now + delay);
        self.take_along(index, now + delay);
    }

    /// Siblings that share the fate of child `index` are stopped, and started again from `at` on.
    fn take_along(&mut self, index: usize, at: Instant) {
        for i in self.strategy.affected(index, self.children.len()) {
            let entry = &mut self.children[i];
            if i == index || (entry.status == Status::Idle && !entry.must_start) {
                continue;
            }
            entry.want_stop();
            if entry.restart != Restart::Temporary {
                entry.want_start(at);
            }
        }
    }

    /// Stops everything and ends with `exit`.
    fn end(&mut self, exit: Exit) {
        if let Exit::Failed(fault) = &exit {
            tracing::error!(path = self.vitals.path(), reason = %fault, "supervisor gives up");
            self.vitals.event(EventKind::Escalated { reason: fault.to_string() });
        }
        for entry in &mut self.children {
            entry.must_start = false;
            entry.want_stop();
        }
        self.waiters.drain(..).for_each(|waiter| waiter.answer(Err(OrderError::Stopping)));
        self.mode = Mode::Ending(exit);
    }

    fn on_order(&mut self, order: Order) {
        if !matches!(self.mode, Mode::Steady | Mode::Booting) {
            return order.answer(Err(OrderError::Stopping));
        }
        let now = Instant::now();
        let index = order.index;
        let entry = &mut self.children[index];
        match order.verb {
            Verb::Pause => entry.tell(Control::Pause),
            Verb::Resume => entry.tell(Control::Resume),
            Verb::Panic => entry.tell(Control::Panic),
            Verb::Stop => {
                entry.must_start = false;
                entry.want_stop();
                if entry.status == Status::Idle {
                    entry.vitals.set_state(State::Stopped);
                }
            }
            Verb::Start if entry.status != Status::Idle => {
                return order.answer(Err(OrderError::AlreadyRunning));
            }
            Verb::Start => entry.want_start(now),
            Verb::Restart => {
                entry.want_stop();
                entry.want_start(now);
                self.take_along(index, now);
            }
        }
        let entry = &self.children[index];
        self.waiters.push(Waiter::new(order, entry.incarnation));
    }

    /// Works off the wishes as far as possible; the exit once everything is down at the end.
    fn advance(&mut self) -> Option<Exit> {
        if self.stop_next() {
            return None;
        }
        if let Mode::Ending(exit) = &self.mode {
            return Some(exit.clone());
        }
        self.start_next();
        let settled = self.children.iter().all(|e| !e.must_start && e.status != Status::Starting);
        if matches!(self.mode, Mode::Booting) && settled {
            self.mode = Mode::Steady;
        }
        None
    }

    /// Asks the next child to stop, from the last to the first; true while any has not ended.
    fn stop_next(&mut self) -> bool {
        let mut waiting = false;
        for entry in self.children.iter_mut().rev().filter(|entry| entry.must_stop) {
            waiting = true;
            if entry.status != Status::Stopping {
                entry.status = Status::Stopping;
                entry.tell(Control::Stop);
            }
            if !self.at_once {
                break;
            }
        }
        waiting
    }

    /// Starts what is due, from the first to the last; children that depend on each other wait for the one before.
    fn start_next(&mut self) {
        let booting = matches!(self.mode, Mode::Booting);
        let in_order = !self.at_once && (booting || self.strategy != Strategy::OneForOne);
        let now = Instant::now();
        for entry in &mut self.children {
            if entry.must_start && entry.start_at <= now {
                entry.must_start = false;
                entry.status = Status::Starting;
                entry.incarnation += 1;
                entry.tell(Control::Start { incarnation: entry.incarnation });
            }
            if in_order && (entry.must_start || entry.status == Status::Starting) {
                break;
            }
        }
    }

    fn answer_waiters(&mut self) {
        let children = &self.children;
        self.waiters.retain_mut(|waiter| {
            let entry = &children[waiter.index];
            let done = match waiter.verb {
                Verb::Pause | Verb::Resume | Verb::Panic => true,
                Verb::Stop => entry.status == Status::Idle,
                Verb::Start | Verb::Restart => {
                    entry.status == Status::Up && entry.incarnation > waiter.incarnation
                }
            };
            if done {
                waiter.answer_in_place(Ok(()));
            }
            !done
        });
    }

    fn publish_budget(&mut self) {
        let left = self.window.left(Instant::now() - self.epoch);
        self.children.iter().for_each(|entry| entry.vitals.set_budget_left(left));
    }

    /// Arms the timer for the next start or the next restart that leaves the window; true when it has already rung.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let next = self.children.iter().filter(|e| e.must_start && e.start_at > now).map(|e| e.start_at).min();
        // Without a start to wait for, look at the budget now and then so that the tree shows it growing again.
        let used = self.window.left(now - self.epoch) < self.limits.intensity;
        let next = next.or_else(|| used.then(|| now + Duration::from_millis(500)));
        let Some(at) = next else {
            return false;
        };
        self.timer.as_mut().reset(at);
        self.timer.as_mut().poll(cx).is_ready()
    }
}

impl Body for SupervisorBody {
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.stop = Box::pin(cx.stop.cancelled_owned());
        self.mode = Mode::Booting;
        self.window = RestartWindow::new(self.limits);
        let now = Instant::now();
        for entry in &mut self.children {
            entry.attempt = 0;
            // What a killed incarnation left running is taken down first.
            entry.want_stop();
            entry.want_start(now);
        }
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        loop {
            while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
                self.on_report(report);
            }
            while let Poll::Ready(Some(order)) = self.orders.poll_recv(cx) {
                self.on_order(order);
            }
            let ending = matches!(self.mode, Mode::Ending(_));
            if !ending && self.stop.as_mut().poll(cx).is_ready() {
                self.end(Exit::Shutdown);
            }
            if let Some(exit) = self.advance() {
                self.mode = Mode::Vacant;
                return Poll::Ready(exit);
            }
            self.answer_waiters();
            self.publish_budget();
            if !self.poll_timer(cx) {
                return Poll::Pending;
            }
        }
    }

    fn is_up(&self) -> bool {
        matches!(self.mode, Mode::Steady)
    }

    fn kill(&mut self) -> bool {
        self.children.iter().for_each(|entry| entry.tell(Control::Kill));
        self.mode = Mode::Vacant;
        true
    }
}
