//! Decision when a rule polls (CONTRACT CO05 to CO07, CO13, CO14): at once after a single notice, once
//! for a burst of notices, and at intervals without notices. Pure: times and random numbers are
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

/// Intervals of polling.
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
pub struct Polling {
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
    /// Creates the state before the first poll, which is due at once.
    pub fn new(intervals: PollIntervals) -> Self {
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
    pub fn notice(&mut self, count: u64, now: Instant) {
        match &mut self.during_request {
            _ if count == 0 => {}
            Some(received) => {
                received.count = received.count.saturating_add(count);
                received.span = Some(extended(received.span, (now, now)));
            }
            None => self.sort_out(count, (now, now), now),
        }
    }

    /// Records that a request begins, which may write.
    pub fn request_started(&mut self) {
        self.during_request = Some(Received::default());
    }

    /// Records the end of the request; `wrote` if the server has carried out a write, which causes one
    /// notice.
    pub fn request_ended(&mut self, wrote: bool, now: Instant) {
        if wrote && self.notices_up {
            if self.own_writes.len() == OWN_WRITES_MAX {
                self.own_writes.pop_front();
            }
            self.own_writes.push_back(now);
        }
        if let Some(Received { count, span: Some(span) }) = self.during_request.take() {
            self.sort_out(count, span, now);
        }
    }

    /// Takes own notices out of `count` notices that arrived in `span`; the others are pending.
    fn sort_out(&mut self, count: u64, span: (Instant, Instant), now: Instant) {
        while self.own_writes.front().is_some_and(|answered| *answered + OWN_NOTICE < span.0) {
            self.own_writes.pop_front();
        }
        let own = usize::try_from(count).unwrap_or(usize::MAX).min(self.own_writes.len());
        self.own_writes.drain(..own);
        if own > 0 {
            // The own notice may be lost and another client's be taken for it, or the write itself may
            // have made candidates.
            self.check_at.get_or_insert(now + self.intervals.coalesce_max);
        }
        if count > own as u64 {
            self.pending_notices = Some(extended(self.pending_notices, span));
        }
    }

    /// Records that another agent was faster at a claim: the next notices wait for a random time, so
    /// that its winner goes first. `unit` is random, 0 to 1.
    pub fn claim_lost(&mut self, unit: f64) {
        let span = self.intervals.coalesce.clamp(LOST_MIN, LOST_MAX);
        self.lost_delay = Some(span.mul_f64(0.5 + 0.5 * unit));
    }

    /// Records a successful claim.
    pub fn claimed(&mut self) {
        self.lost_delay = None;
    }

    /// Records that notices came up or went down. Some may have been missed, so a change requires a
    /// poll.
    pub fn set_notices_up(&mut self, there: bool, now: Instant) {
        if self.notices_up != there {
            self.notices_up = there;
            self.own_writes.clear();
            self.at_once = Some(now);
        }
    }

    /// Records that a poll begins, which covers all earlier notices.
    pub fn polled(&mut self, now: Instant) {
        self.last_poll = Some(now);
        (self.pending_notices, self.at_once, self.check_at) = (None, None, None);
    }

    /// Returns the time of the next poll; None: at once. It is the poll interval after the last poll, or
    /// earlier: at once after a notice or a change of the link, but after a notice soon after a poll
    /// `coalesce` later, `coalesce_max` at most. A parked, paused or full rule does not poll then
    /// (`Agent::may_poll`).
    pub fn due(&self) -> Option<Instant> {
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

    /// Returns true if a poll is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due().is_none_or(|due| due <= now)
    }
}

/// Extends a span of time.
fn extended(span: Option<(Instant, Instant)>, by: (Instant, Instant)) -> (Instant, Instant) {
    span.map_or(by, |(first, last)| (first.min(by.0), last.max(by.1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTERVALS: PollIntervals = PollIntervals {
        poll: Duration::from_secs(600),
        poll_without_notices: Duration::from_secs(15),
        coalesce: Duration::from_millis(100),
        coalesce_max: Duration::from_millis(500),
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the state right after a poll, with notices up.
    fn polled_with_notices(intervals: PollIntervals, now: Instant) -> Polling {
        let mut polling = Polling::new(intervals);
        polling.set_notices_up(true, now);
        polling.polled(now);
        polling
    }

    #[test]
    fn the_first_poll_is_due_at_once_and_the_next_after_the_interval() {
        let now = Instant::now();
        assert_eq!(Polling::new(INTERVALS).due(), None);
        assert_eq!(polled_with_notices(INTERVALS, now).due(), Some(now + INTERVALS.poll));
    }

    #[test]
    fn a_single_notice_polls_at_once_and_a_burst_polls_once() {
        let now = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, now);
        polling.notice(1, now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000)));
        polling.polled(now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000) + INTERVALS.poll), "told once, looked once");
        for after in [1_010, 1_040, 1_090] {
            polling.notice(1, now + ms(after));
        }
        assert_eq!(polling.due(), Some(now + ms(1_190)));
    }

    #[test]
    fn endless_notices_poll_every_half_second() {
        let begun = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, begun);
        let mut polled = Vec::new();
        for tick in 1..=20 * 60 * 10 {
            let now = begun + ms(50) * tick;
            while let Some(due) = polling.due().filter(|due| *due <= now) {
                polled.push(due);
                polling.polled(due);
            }
            polling.notice(1, now);
        }
        assert!(polled.len() > 1_000, "{}", polled.len());
        assert!(polled.windows(2).all(|pair| pair[1] - pair[0] <= ms(550)), "it starves");
        assert!(polled.windows(2).all(|pair| pair[1] - pair[0] >= ms(500)), "it does not coalesce");
    }

    #[test]
    fn a_loss_of_notices_polls_at_once_and_then_more_often() {
        let now = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, now);
        polling.set_notices_up(false, now + ms(10));
        assert_eq!(polling.due(), Some(now + ms(10)));
        polling.polled(now + ms(10));
        polling.set_notices_up(false, now + ms(20));
        assert_eq!(polling.due(), Some(now + ms(10) + INTERVALS.poll_without_notices), "told once");
        polling.set_notices_up(true, now + ms(30));
        assert_eq!(polling.due(), Some(now + ms(30)), "what happened before the binding is seen");
    }

    #[test]
    fn a_poll_interval_of_250_ms_does_not_depend_on_notices() {
        let now = Instant::now();
        let mut polling = polled_with_notices(PollIntervals { poll: ms(250), ..INTERVALS }, now);
        polling.set_notices_up(false, now);
        polling.polled(now);
        assert_eq!(polling.due(), Some(now + ms(250)));
    }

    #[test]
    fn own_notices_before_and_after_the_answer_are_not_followed_at_once() {
        let now = Instant::now();
        for before_the_answer in [true, false] {
            let mut polling = polled_with_notices(INTERVALS, now);
            polling.request_started();
            let (answered, noticed) =
                (now + ms(1_020), now + ms(if before_the_answer { 1_010 } else { 1_030 }));
            if before_the_answer {
                polling.notice(1, noticed);
            }
            polling.request_ended(true, answered);
            if !before_the_answer {
                polling.notice(1, noticed);
            }
            assert_eq!(polling.due(), Some(answered.max(noticed) + INTERVALS.coalesce_max), "a late check");
            // One more is another client's.
            polling.notice(1, now + ms(1_040));
            assert_eq!(polling.due(), Some(now + ms(1_040)));
        }
    }

    #[test]
    fn a_notice_during_a_query_leads_to_another_one() {
        let now = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, now);
        polling.polled(now + ms(1_000));
        polling.request_started();
        polling.notice(1, now + ms(1_001));
        assert_eq!(polling.due(), Some(now + ms(1_000) + INTERVALS.poll), "the answer is awaited");
        polling.request_ended(false, now + ms(1_002));
        assert_eq!(polling.due(), Some(now + ms(1_101)));
    }

    #[test]
    fn an_own_notice_that_never_comes_hides_no_other_for_long() {
        let now = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, now);
        polling.request_started();
        polling.request_ended(true, now);
        let other = now + OWN_NOTICE;
        polling.notice(1, other);
        assert_eq!(polling.due(), Some(other + INTERVALS.coalesce_max));
        polling.polled(other + INTERVALS.coalesce_max);
        polling.request_started();
        polling.request_ended(true, other + ms(1_000));
        polling.notice(1, other + ms(2_001));
        assert_eq!(polling.due(), Some(other + ms(2_001)), "too late for the own one");
    }

    #[test]
    fn a_lost_claim_delays_notices_until_one_is_won() {
        let now = Instant::now();
        let mut polling = polled_with_notices(INTERVALS, now);
        for (unit, delay) in [(0.0, 50), (0.5, 75), (1.0, 100)] {
            polling.claim_lost(unit);
            polling.notice(1, now + ms(1_000));
            assert_eq!(polling.due(), Some(now + ms(1_000 + delay)));
            polling.polled(now);
        }
        polling.claimed();
        polling.notice(1, now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000)));
        let mut eager = polled_with_notices(PollIntervals { coalesce: ms(0), ..INTERVALS }, now);
        eager.claim_lost(0.0);
        eager.notice(1, now);
        assert_eq!(eager.due(), Some(now + LOST_MIN / 2));
    }

    proptest! {
        /// Notices of own writes and of other clients in any order, also lost and late ones: a poll that
        /// begins after another client's notice follows it, at the latest after both delays.
        #[test]
        fn each_notice_is_followed_by_a_poll(
            events in proptest::collection::vec((0u64..400, 0u8..6, 0.0f64..1.0), 1..200),
        ) {
            let begun = Instant::now();
            let mut polling = polled_with_notices(INTERVALS, begun);
            let (mut now, mut unseen, mut in_flight): (_, Option<Instant>, _) = (begun, None, false);
            for (later, kind, unit) in events {
                let next = now + ms(later);
                while !in_flight && let Some(due) = polling.due().filter(|due| *due <= next) {
                    let due = due.max(now);
                    if let Some(notice) = unseen.take() {
                        prop_assert!(due - notice <= INTERVALS.coalesce_max + ms(400), "{:?}", due - notice);
                    }
                    polling.polled(due);
                    now = due;
                }
                now = next;
                match kind {
                    0 if !in_flight => {
                        polling.request_started();
                        in_flight = true;
                    }
                    // Whether it wrote or not, and whether its notice came or not.
                    _ if in_flight => {
                        if kind > 2 {
                            polling.notice(1, now);
                            unseen.get_or_insert(now);
                        }
                        polling.request_ended(kind % 2 == 0, now);
                        in_flight = false;
                    }
                    1 => polling.claim_lost(unit),
                    2 => polling.claimed(),
                    _ => {
                        polling.notice(1, now);
                        unseen.get_or_insert(now);
                    }
                }
            }
            if in_flight {
                polling.request_ended(true, now);
            }
            if let Some(notice) = unseen {
                let due = polling.due().expect("a time");
                prop_assert!(due - notice <= INTERVALS.coalesce_max + ms(400), "{:?}", due - notice);
            }
        }

        /// A poll follows each notice within `coalesce_max`, and the last poll within the interval.
        #[test]
        fn no_notice_waits_longer_than_the_maximum(events in proptest::collection::vec((0u64..900, 0u8..3), 1..200)) {
            let begun = Instant::now();
            let mut polling = polled_with_notices(INTERVALS, begun);
            let (mut now, mut unseen, mut last_poll): (_, Option<Instant>, _) = (begun, None, begun);
            for (later, kind) in events {
                let next = now + ms(later);
                while let Some(due) = polling.due().filter(|due| *due <= next) {
                    let due = due.max(now);
                    if let Some(after_notice) = unseen.take() {
                        prop_assert!(due - after_notice <= INTERVALS.coalesce_max);
                    }
                    prop_assert!(due - last_poll <= INTERVALS.poll);
                    last_poll = due;
                    polling.polled(due);
                    now = due;
                }
                now = next;
                match kind {
                    0 => polling.set_notices_up(false, now),
                    1 => polling.set_notices_up(true, now),
                    _ => {
                        polling.notice(1, now);
                        unseen.get_or_insert(now);
                    }
                }
            }
        }
    }
}
