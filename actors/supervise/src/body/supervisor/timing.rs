//! Timers of a supervisor: overdue stops and due starts.

use std::task::Context;

use orchestrator_observe::{Exit, State};
use tokio::time::Instant;

use super::SupervisorBody;
use crate::runner::Control;

impl SupervisorBody {
    /// Gives up waiting for children whose arbiter is blocked. They are dropped or drained once it runs
    /// again; until then no new incarnation is started.
    pub(super) fn give_up_overdue(&mut self) {
        let now = Instant::now();
        for index in 0..self.children.len() {
            let entry = &self.children[index];
            if entry.stop_by.is_some_and(|at| at <= now) {
                entry.tell(Control::Kill);
                entry.child.report_stop_timeout();
                entry.child.replace_state(State::Stopping, State::Stuck);
                for state in [State::Starting, State::Running, State::Paused] {
                    entry.child.replace_state(state, State::Stuck);
                }
                self.decide_restart(index, &Exit::Killed);
            }
        }
    }

    pub(super) fn publish_budget(&mut self) {
        let now = Instant::now() - self.epoch;
        for index in 0..self.children.len() {
            let left = self.window(index).left(now);
            self.children[index].child.set_budget_left(left);
        }
    }

    /// Arms the timer for the earliest of four times, and returns whether it has already fired:
    ///
    /// - the next start,
    /// - the time at which a stop is overdue,
    /// - the time by which the children are down if the process stops,
    /// - the time at which a restart leaves its window, after which the tree shows a larger budget.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let starts = self.children.iter().filter(|e| e.must_start && e.start_at > now).map(|e| e.start_at);
        let stops = self.children.iter().filter_map(|e| e.stop_by);
        let grows = self.windows.iter().filter_map(|window| Some(self.epoch + window.next_expiry()?));
        let deadline = self.deadline.filter(|deadline| *deadline > now);
        let Some(at) = starts.chain(stops).chain(grows).chain(deadline).min() else {
            return false;
        };
        self.timer.as_mut().reset(at);
        self.timer.as_mut().poll(cx).is_ready()
    }
}
