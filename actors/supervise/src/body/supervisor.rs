//! A supervisor: a child like any other, whose incarnation is the life of its children.
//!
//! It holds wishes (`must_stop`, `must_start`) and works them off in order: stops from the last child to the first,
//! then starts from the first to the last. Exits, orders and timers only change wishes, so that an exit in the middle
//! of a round simply widens the round, and a supervisor never blocks.

mod changes;
mod timing;

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
    ChildSpec, Exit, Fault, Limits, Restart, StartCx, State, Strategy, Tree, Vitals,
    body::{
        Body, Kill,
        entry::{Entry, Status},
    },
    command::{Command, Order, OrderError, Waiter},
    event::EventKind,
    limits::RestartWindow,
    runner::{Control, News, Report},
    spec::Change,
};

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
    dynamic: Option<Dynamic>,
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
    pub(crate) dynamic: Option<Dynamic>,
    pub(crate) children: Vec<Entry>,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
}

/// Parts of a supervisor with dynamic children.
pub(crate) struct Dynamic {
    pub(crate) changes: mpsc::Receiver<Change>,
    pub(crate) max: usize,
    pub(crate) tree: Tree,
    /// Builds a child with this number, and puts it into the tree.
    pub(crate) build: Box<dyn Fn(usize, ChildSpec) -> Entry + Send>,
    /// The number of the next child.
    pub(crate) next: usize,
}

impl SupervisorBody {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            vitals: parts.vitals,
            strategy: parts.strategy,
            limits: parts.limits,
            at_once: parts.at_once,
            dynamic: parts.dynamic,
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
        let Some(index) = self.position(report.index) else { return };
        let entry = &mut self.children[index];
        // Late news of an incarnation that was replaced, or that is waited for no longer.
        if entry.incarnation != report.incarnation || entry.status == Status::Idle {
            return;
        }
        match report.news {
            News::Up => {
                if entry.status == Status::Starting {
                    entry.status = Status::Up;
                }
                entry.up_since = Some(Instant::now());
                let up = entry.incarnation;
                if let Some(arrival) = entry.arrival.take() {
                    let _ = arrival.send(Ok(()));
                }
                self.answer(index, Ok(()), |w| w.order.verb != Command::Stop && w.incarnation < up);
            }
            News::Exited(exit) => self.on_exit(index, &exit),
            News::Vanished => {}
        }
    }

    /// Where the child with this number is; None: it has left.
    fn position(&self, number: usize) -> Option<usize> {
        self.children.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    /// Answers the orders about child `index` that `which` picks.
    fn answer(
        &mut self,
        index: usize,
        result: Result<(), OrderError>,
        mut which: impl FnMut(&Waiter) -> bool,
    ) {
        let number = self.children[index].number;
        let done = self.waiters.extract_if(.., |waiter| waiter.order.index == number && which(waiter));
        done.for_each(|waiter| waiter.order.answer(result));
    }

    fn on_exit(&mut self, index: usize, exit: &Exit) {
        self.judge(index, exit);
        if self.children[index].is_retired() {
            self.answer(index, Err(OrderError::Ended), |_| true);
        }
    }

    /// Decides what becomes of a child that ended, and of its siblings.
    fn judge(&mut self, index: usize, exit: &Exit) {
        let now = Instant::now();
        let booting = matches!(self.mode, Mode::Booting);
        let entry = &mut self.children[index];
        let was_up = entry.up_since.take();
        if was_up.is_some_and(|since| now - since > self.limits.period) {
            entry.attempt = 0;
        }
        let wanted = entry.ended();
        if wanted && entry.must_start && entry.start_at > now {
            entry.vitals.shift_state(State::Stopped, State::BackingOff);
        }
        self.answer(index, Ok(()), |waiter| waiter.order.verb == Command::Stop);
        if wanted || matches!(self.mode, Mode::Ending(_)) {
            // Stopped before it was up: it is declared all the same.
            if let Some(arrival) = self.children[index].arrival.take() {
                let _ = arrival.send(Ok(()));
            }
            return;
        }
        if was_up.is_none() && self.refuse_arrival(index, exit) {
            return;
        }
        let entry = &mut self.children[index];
        if booting && was_up.is_none() && self.dynamic.is_none() {
            let id = entry.vitals.path().to_owned();
            return self.end(Exit::Failed(Fault::new(format!("{id} did not start: {exit}"))));
        }
        if !entry.restart.applies_to(exit) {
            if self.dynamic.is_some() {
                entry.departure.get_or_insert_default();
            }
            return;
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
        entry.vitals.shift_state(State::Stopped, State::BackingOff);
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        entry.vitals.event(EventKind::RestartScheduled { delay_ms });
        entry.want_start(now + delay);
        self.take_along(index, now + delay, true);
    }

    /// Stops the siblings that the strategy restarts with child `index`, and starts them again from `at` on. After a
    /// failure they drain for a second at most, since the child that failed answers them no more.
    fn take_along(&mut self, index: usize, at: Instant, failed: bool) {
        for i in self.strategy.affected(index, self.children.len()) {
            let entry = &mut self.children[i];
            if i == index || entry.is_retired() {
                continue;
            }
            entry.want_stop();
            entry.sibling_failed = failed && entry.must_stop;
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
        self.children.iter_mut().for_each(Entry::want_end);
        self.dismiss_waiters();
        self.mode = Mode::Ending(exit);
    }

    fn dismiss_waiters(&mut self) {
        self.waiters.drain(..).for_each(|waiter| waiter.order.answer(Err(OrderError::Stopping)));
        // They are declared, and start when their supervisor does.
        let arrivals = self.children.iter_mut().filter_map(|entry| entry.arrival.take());
        arrivals.for_each(|arrival| drop(arrival.send(Ok(()))));
    }

    fn on_order(&mut self, order: Order) {
        if order.is_stale() {
            return;
        }
        if !matches!(self.mode, Mode::Steady | Mode::Booting) {
            return order.answer(Err(OrderError::Stopping));
        }
        let (now, verb) = (Instant::now(), order.verb);
        let there = self.position(order.index).filter(|index| self.children[*index].departure.is_none());
        let Some(index) = there else { return order.answer(Err(OrderError::Removed)) };
        let entry = &mut self.children[index];
        match verb {
            Command::Pause | Command::Resume | Command::Panic | Command::Freeze => {
                return entry.tell(Control::Obey(order));
            }
            Command::Start if entry.is_at_work() => return order.answer(Err(OrderError::AlreadyRunning)),
            Command::Start => entry.want_start(now),
            Command::Stop => entry.want_end(),
            Command::Restart => {
                entry.want_stop();
                entry.want_start(now);
                self.take_along(index, now, false);
            }
        }
        let contradicts = |other: &Waiter| (other.order.verb == Command::Stop) != (verb == Command::Stop);
        self.answer(index, Err(OrderError::Superseded), contradicts);
        let entry = &self.children[index];
        if verb == Command::Stop && entry.status == Status::Idle {
            return order.answer(Ok(()));
        }
        self.waiters.push(Waiter { order, incarnation: entry.incarnation });
    }

    /// Works off the wishes as far as possible; the exit once everything is down at the end.
    fn advance(&mut self) -> Option<Exit> {
        let stopping = self.stop_next();
        let independent = self.dynamic.is_some() && !matches!(self.mode, Mode::Ending(_));
        if stopping && !independent {
            return None;
        }
        if let Mode::Ending(exit) = &self.mode {
            return Some(exit.clone());
        }
        self.start_next();
        let now = Instant::now();
        // Children that come and go are not waited for while they back off.
        let later = |e: &Entry| self.dynamic.is_some() && e.start_at > now;
        let settled =
            self.children.iter().all(|e| (!e.must_start || later(e)) && e.status != Status::Starting);
        if matches!(self.mode, Mode::Booting) && settled {
            self.mode = Mode::Steady;
        }
        None
    }

    /// Asks the next child to stop, from the last to the first; true while any has not ended.
    fn stop_next(&mut self) -> bool {
        let now = Instant::now();
        let mut waiting = false;
        for entry in self.children.iter_mut().rev().filter(|entry| entry.must_stop) {
            waiting = true;
            if entry.status != Status::Stopping {
                entry.stop(now);
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
            if entry.must_start && entry.start_at <= now && entry.status == Status::Idle {
                entry.start();
            }
            if in_order && (entry.must_start || entry.status == Status::Starting) {
                break;
            }
        }
    }
}

impl Body for SupervisorBody {
    fn start(&mut self, cx: StartCx) -> Result<(), Exit> {
        self.stop = Box::pin(cx.stop.cancelled_owned());
        self.mode = Mode::Booting;
        self.window = RestartWindow::new(self.limits);
        let now = Instant::now();
        for entry in self.children.iter_mut().filter(|entry| entry.departure.is_none()) {
            entry.attempt = 0;
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
            self.poll_changes(cx);
            let ending = matches!(self.mode, Mode::Ending(_));
            if !ending && self.stop.as_mut().poll(cx).is_ready() {
                self.end(Exit::Shutdown);
            }
            self.give_up_overdue();
            self.see_off();
            if let Some(exit) = self.advance() {
                self.mode = Mode::Vacant;
                return Poll::Ready(exit);
            }
            self.publish_budget();
            if !self.poll_timer(cx) {
                return Poll::Pending;
            }
        }
    }

    fn poll_vacant(&mut self, cx: &mut Context<'_>) {
        if self.dynamic.is_none() {
            return;
        }
        while let Poll::Ready(Some(report)) = self.reports.poll_recv(cx) {
            self.on_report(report);
        }
        self.poll_changes(cx);
        self.see_off();
    }

    fn is_up(&self) -> bool {
        matches!(self.mode, Mode::Steady)
    }

    fn kill(&mut self, exit: Exit) -> Kill {
        let now = Instant::now();
        self.children.iter_mut().for_each(|entry| entry.kill(now));
        self.dismiss_waiters();
        self.mode = Mode::Ending(exit);
        Kill::UnderWay
    }
}
