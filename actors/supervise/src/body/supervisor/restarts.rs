//! Restarts: which children are restarted after an exit, and what ends after too many restarts.

use orchestrator_observe::{EventKind, Exit, Fault, State, millis};
use orchestrator_text::sanitize;
use tokio::time::Instant;

use super::{Mode, SupervisorBody};
use crate::{
    command::{Command, CommandRefusal},
    limits::RestartWindow,
};

/// Random number of a delay without jitter.
const NO_JITTER: f64 = 0.5;

impl SupervisorBody {
    /// Decides whether a child that ended is restarted, with which siblings, and whether the supervisor
    /// gives up.
    ///
    /// A permanent child always restarts, a transient one after a failure. With `one_for_all` all siblings
    /// restart, with `rest_for_one` those after it. The delay doubles with each attempt. More than
    /// `intensity` restarts within the period end the supervisor or give up the child; a static child that
    /// fails at the first start ends the supervisor.
    pub(super) fn decide_restart(&mut self, index: usize, exit: &Exit) {
        let now = Instant::now();
        let booting = matches!(self.mode, Mode::Booting);
        let entry = &mut self.children[index];
        let was_up = entry.up_since.take();
        if was_up.is_some_and(|since| now - since > self.limits.period) {
            entry.attempt = 0;
            entry.give_ups = 0;
        }
        let wanted = entry.record_end();
        if wanted && entry.must_start && entry.start_at > now {
            entry.child.replace_state(State::Stopped, State::BackingOff);
        }
        self.answer(index, Ok(()), |pending| pending.request.command == Command::Stop);
        if wanted || matches!(self.mode, Mode::Stopping(_)) {
            // A dynamic child that is stopped before it is up was added nevertheless.
            if let Some(added) = self.children[index].added.take() {
                let _ = added.send(Ok(()));
            }
            return;
        }
        if was_up.is_none() && self.reject_failed_start(index, exit) {
            return;
        }
        let entry = &mut self.children[index];
        if booting && was_up.is_none() && self.dynamic.is_none() {
            let id = entry.child.path().to_owned();
            return self.end(Exit::Failed(Fault::new(format!("{id} did not start: {exit}"))));
        }
        if !entry.restart.applies_to(exit) {
            entry.leaves = self.dynamic.is_some();
            return;
        }
        let delay = self.limits.backoff.delay(entry.attempt, fastrand::f64());
        entry.attempt = entry.attempt.saturating_add(1);
        let since_epoch = now - self.epoch;
        if self.window(index).record(since_epoch) {
            return self.give_up(index, exit);
        }
        let entry = &mut self.children[index];
        entry.child.replace_state(State::Stopped, State::BackingOff);
        entry.child.event(EventKind::RestartScheduled { delay_ms: millis(delay) });
        entry.want_start(now + delay, false);
        self.restart_siblings(index, now + delay, true);
    }

    /// Stops the siblings that the strategy affects, and starts them again at `at`. If child `index` failed,
    /// they drain for at most a second, since it no longer answers them.
    pub(super) fn restart_siblings(&mut self, index: usize, at: Instant, failed: bool) {
        for i in self.strategy.affected(index, self.children.len()) {
            let entry = &mut self.children[i];
            if i == index || entry.is_retired() {
                continue;
            }
            entry.want_stop();
            entry.sibling_failed = failed && entry.must_stop;
            entry.want_start(at, !failed);
        }
    }

    pub(super) fn reset_windows(&mut self) {
        let count = if self.retry.is_some() { self.children.len() } else { 1 };
        self.windows = (0..count).map(|_| RestartWindow::new(self.limits)).collect();
    }

    pub(super) fn window(&mut self, index: usize) -> &mut RestartWindow {
        let at = if self.retry.is_some() { index } else { 0 };
        &mut self.windows[at]
    }

    /// Ends the supervisor, whose child `index` exceeded the limits, or only gives up the child: if children
    /// give up alone, and another significant child runs or restarts.
    fn give_up(&mut self, index: usize, exit: &Exit) {
        let (now, limits) = (Instant::now(), self.limits);
        let exceeded = format!("more than {} restarts in {:?}", limits.intensity, limits.period);
        let mut others = self.children.iter().enumerate().filter(|(other, _)| *other != index);
        let goes_on = others.any(|(_, e)| e.significant && !e.is_retired() && !e.is_given_up());
        let Some(retry) = self.retry.filter(|_| goes_on) else {
            let path = self.children[index].child.path();
            let text = format!("{exceeded}, the last for {path}: {exit}");
            return self.end(Exit::Failed(Fault::new(text)));
        };
        *self.window(index) = RestartWindow::new(limits);
        let entry = &mut self.children[index];
        let delay = retry.delay(entry.give_ups, NO_JITTER);
        entry.give_ups = entry.give_ups.saturating_add(1);
        entry.attempt = 0;
        entry.want_start(now + delay, false);
        entry.child.give_up(now + delay);
        let (reason, delay_ms) = (sanitize(format!("{exceeded}: {exit}")), millis(delay));
        tracing::error!(path = entry.child.path(), reason, delay_ms, "child given up, will be tried again");
        entry.child.event(EventKind::GivenUp { reason, delay_ms });
        self.answer(index, Err(CommandRefusal::Ended), |_| true);
    }
}
