//! The clock of a catalog: tells rules when to look.

use orchestrator_supervise::{Metric, StartCx};
use tokio::time::{Instant, sleep_until};

use crate::{
    edge::notices::{Heard, Notices},
    polling::Polling,
    rules::Rules,
    service::Service,
};

/// What it needs.
pub(super) struct Clock<S> {
    pub(super) polling: Polling,
    pub(super) notices: Notices,
    pub(super) rules: Rules<S>,
    pub(super) cx: StartCx,
    pub(super) looked: Metric,
}

impl<S: Service + Clone + Send + 'static> Clock<S> {
    /// Goes until the child is asked to stop.
    pub(super) async fn run(mut self) {
        let mut count = 0;
        let heard = self.notices.heard_now();
        self.hear(heard, &mut count);
        loop {
            let now = Instant::now();
            let due = self.polling.due().unwrap_or(now);
            if due <= now {
                self.look(now);
                continue;
            }
            tokio::select! {
                biased;
                () = self.cx.stop.cancelled() => return,
                heard = self.notices.changed() => self.hear(heard, &mut count),
                () = sleep_until(due) => {}
            }
        }
    }

    fn hear(&mut self, heard: Heard, count: &mut u64) {
        let now = Instant::now();
        self.polling.notices(heard.is_up, now);
        if heard.count != *count {
            self.polling.noticed(now);
        }
        *count = heard.count;
    }

    fn look(&mut self, now: Instant) {
        self.polling.looks(now);
        self.looked.add(1);
        self.rules.look();
    }
}
