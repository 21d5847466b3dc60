//! Timing of polls.

use orchestrator_supervise::{Metric, StartCx};
use tokio::time::{Instant, sleep_until};

use crate::{
    edge::notices::{NoticeState, Notices},
    polling::Polling,
    rules::Rules,
    service::Service,
};

/// State of the timer.
pub(super) struct PollTimer<S> {
    pub(super) polling: Polling,
    pub(super) notices: Notices,
    pub(super) rules: Rules<S>,
    pub(super) cx: StartCx,
    pub(super) polls: Metric,
}

impl<S: Service + Clone + Send + 'static> PollTimer<S> {
    /// Triggers polls until the child is stopped.
    pub(super) async fn run(mut self) {
        let mut count = 0;
        let state = self.notices.mark_seen();
        self.handle_notices(state, &mut count);
        loop {
            let now = Instant::now();
            let due = self.polling.due().unwrap_or(now);
            if due <= now {
                self.poll(now);
                continue;
            }
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return,
                state = self.notices.changed() => self.handle_notices(state, &mut count),
                () = sleep_until(due) => {}
            }
        }
    }

    fn handle_notices(&mut self, state: NoticeState, count: &mut u64) {
        let now = Instant::now();
        self.polling.set_notices_up(state.is_up, now);
        if state.count != *count {
            self.polling.notice(now);
        }
        *count = state.count;
    }

    fn poll(&mut self, now: Instant) {
        self.polling.polled(now);
        self.polls.add(1);
        self.rules.poll();
    }
}
