//! The clock of a catalog: tells rules when to look.

use orchestrator_supervise::{Figure, StartCx};
use tokio::time::{Instant, sleep_until};

use super::running::Rules;
use crate::{
    edge::notices::{Heard, Notices},
    polling::Polling,
};

/// What it needs.
pub(super) struct Clock {
    pub(super) polling: Polling,
    pub(super) notices: Notices,
    pub(super) rules: Rules,
    pub(super) cx: StartCx,
    pub(super) looked: Figure,
}

impl Clock {
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
        for running in self.rules.borrow().values() {
            running.calls.send_modify(|call| call.looks += 1);
        }
    }
}
