//! Decision when a rule polls (CONTRACT CO05 to CO07, CO13, CO14). A single notice causes a poll at once, a
//! burst of notices one poll. Without notices, a rule polls at intervals. Pure: times and random numbers are
//! arguments.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Time after the answer to a write in which its own notice is expected.
const OWN_NOTICE: Duration = Duration::from_secs(1);
/// Maximum number of own writes whose notices are expected.
const OWN_WRITES_MAX: usize = 64;
/// Bounds of the time that a notice waits after a lost claim; `coalesce_ms` lies between them or is
/// replaced by the nearer one.
const LOST_MIN: Duration = Duration::from_millis(20);
const LOST_MAX: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollIntervals {
    /// Time between two polls while notices arrive.
    pub poll: Duration,
    /// Time between two polls while notices are down.
    pub poll_without_notices: Duration,
    /// Time that a notice shortly after a poll waits for further ones.
    pub coalesce: Duration,
    /// Maximum time that notices postpone a poll, from the first of them.
    pub coalesce_max: Duration,
}

/// Time of the next poll.
#[derive(Debug, Clone)]
pub(crate) struct Polling {
    intervals: PollIntervals,
    last_poll: Option<Instant>,
    /// Times of the first and the last notice since the last poll.
    pending_notices: Option<(Instant, Instant)>,
    /// Time of an event that requires a poll at once, without a notice.
    at_once: Option<Instant>,
    notices_up: bool,
    /// Notices since the request in flight began. Only its result shows whether one of them is its
    /// own.
    during_request: Option<Received>,
    /// Answers of own writes whose notices have not arrived.
    own_writes: VecDeque<Instant>,
    /// Time of the poll that follows own notices if no other poll does.
    check_at: Option<Instant>,
    /// Time that notices wait, since another agent was faster at the last claim.
    lost_delay: Option<Duration>,
}

/// Notices that were received during a request.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    count: u64,
    /// Times of the first and the last one.
    span: Option<(Instant, Instant)>,
}

impl Polling {
    /// The first poll is due at once.
    pub(crate) fn new(intervals: PollIntervals) -> Self {
        Self {
            intervals,
            last_poll: None,
            pending_notices: None,
            at_once: None,
            notices_up: false,
            during_request: None,
            own_writes: VecDeque::new(),
            check_at: None,
            lost_delay: None,
        }
    }

    /// Records `count` notices.
    pub(crate) fn notice(&mut self, count: u64, now: Instant) {
        match &mut self.during_request {
            _ if count == 0 => {}
            Some(received) => {
                received.count = received.count.saturating_add(count);
                received.span = Some(extended(received.span, (now, now)));
            }
            None => self.attribute_notices(count, (now, now), now),
        }
    }

    /// Records that a request begins, which may write.
    pub(crate) fn request_started(&mut self) {
        self.during_request = Some(Received::default());
    }

    /// Records the end of the request; `wrote` if the server has carried out a write, which causes one
    /// notice.
    pub(crate) fn request_ended(&mut self, wrote: bool, now: Instant) {
        if wrote && self.notices_up {
            if self.own_writes.len() == OWN_WRITES_MAX {
                self.own_writes.pop_front();
            }
            self.own_writes.push_back(now);
        }
        if let Some(Received { count, span: Some(span) }) = self.during_request.take() {
            self.attribute_notices(count, span, now);
        }
    }

    /// Takes own notices out of `count` notices that arrived in `span`; the others are pending.
    fn attribute_notices(&mut self, count: u64, span: (Instant, Instant), now: Instant) {
        while self.own_writes.front().is_some_and(|answered| *answered + OWN_NOTICE < span.0) {
            self.own_writes.pop_front();
        }
        let own = usize::try_from(count).unwrap_or(usize::MAX).min(self.own_writes.len());
        self.own_writes.drain(..own);
        if own > 0 {
            // Notices carry no sender, so another client's may count as our own. The write itself may
            // have made candidates, too.
            self.check_at.get_or_insert(now + self.intervals.coalesce_max);
        }
        if count > own as u64 {
            self.pending_notices = Some(extended(self.pending_notices, span));
        }
    }

    /// Records that another agent was faster at a claim. The next poll after a notice is delayed by a
    /// random time, so that two agents do not collide again. `unit` is random, 0 to 1.
    pub(crate) fn claim_lost(&mut self, unit: f64) {
        let span = self.intervals.coalesce.clamp(LOST_MIN, LOST_MAX);
        self.lost_delay = Some(span.mul_f64(0.5 + 0.5 * unit));
    }

    /// Records a successful claim.
    pub(crate) fn claimed(&mut self) {
        self.lost_delay = None;
    }

    /// Records that notices came up or went down. Some may have been missed, so a change requires a
    /// poll.
    pub(crate) fn set_notices_up(&mut self, up: bool, now: Instant) {
        if self.notices_up != up {
            self.notices_up = up;
            self.own_writes.clear();
            self.at_once = Some(now);
        }
    }

    /// Requires a poll at once, without a notice.
    pub(crate) fn require_poll(&mut self, now: Instant) {
        self.at_once = Some(now);
    }

    /// Records that a poll begins, which covers all earlier notices.
    pub(crate) fn polled(&mut self, now: Instant) {
        self.last_poll = Some(now);
        (self.pending_notices, self.at_once, self.check_at) = (None, None, None);
    }

    /// None: at once. A poll is due the poll interval after the last one. A notice or a change of the link
    /// makes it due at once; a notice soon after a poll, `coalesce` later, `coalesce_max` at most. A parked,
    /// paused or full rule does not poll then (`Agent::may_poll`).
    pub(crate) fn due(&self) -> Option<Instant> {
        let PollIntervals { poll, poll_without_notices, coalesce, coalesce_max } = self.intervals;
        let last_poll = self.last_poll?;
        let poll = if self.notices_up { poll } else { poll.min(poll_without_notices) };
        let after_notice = self.pending_notices.map(|(first, last)| {
            // The original delays every notice, also a single one.
            let due = if first >= last_poll + coalesce {
                first
            } else {
                (last + coalesce).min(first + coalesce_max)
            };
            due.max(first + self.lost_delay.unwrap_or_default())
        });
        [Some(last_poll + poll), after_notice, self.at_once, self.check_at].into_iter().flatten().min()
    }

    pub(crate) fn are_notices_up(&self) -> bool {
        self.notices_up
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due().is_none_or(|due| due <= now)
    }
}

/// Extends a span of time.
fn extended(span: Option<(Instant, Instant)>, by: (Instant, Instant)) -> (Instant, Instant) {
    span.map_or(by, |(first, last)| (first.min(by.0), last.max(by.1)))
}

#[cfg(test)]
mod tests;
