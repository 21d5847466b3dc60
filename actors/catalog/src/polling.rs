//! Decision when to poll (CONTRACT CO05 to CO07): at once after a single notice, once for a burst
//! of notices, and at intervals without notices. Pure: the time is an argument.

use std::time::Duration;

use tokio::time::Instant;

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
}

impl Polling {
    /// Creates the state before the first poll, which is due at once.
    pub fn new(intervals: PollIntervals) -> Self {
        Self { intervals, last_poll: None, pending_notices: None, at_once: None, notices_up: false }
    }

    /// Records a notice.
    pub fn notice(&mut self, now: Instant) {
        let first = self.pending_notices.map_or(now, |(first, _)| first);
        self.pending_notices = Some((first, now));
    }

    /// Records that notices came up or went down. Some may have been missed, so a change requires a
    /// poll.
    pub fn set_notices_up(&mut self, there: bool, now: Instant) {
        if self.notices_up != there {
            self.notices_up = there;
            self.at_once = Some(now);
        }
    }

    /// Records that a poll begins, which covers all earlier notices.
    pub fn polled(&mut self, now: Instant) {
        self.last_poll = Some(now);
        (self.pending_notices, self.at_once) = (None, None);
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
            if first >= last_poll + coalesce { first } else { (last + coalesce).min(first + coalesce_max) }
        });
        [Some(last_poll + poll), after_notice, self.at_once].into_iter().flatten().min()
    }
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
        polling.notice(now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000)));
        polling.polled(now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000) + INTERVALS.poll), "told once, looked once");
        for after in [1_010, 1_040, 1_090] {
            polling.notice(now + ms(after));
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
            polling.notice(now);
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

    proptest! {
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
                        polling.notice(now);
                        unseen.get_or_insert(now);
                    }
                }
            }
        }
    }
}
