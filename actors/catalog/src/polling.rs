//! When to look for work (CONTRACT CO05 to CO07): at once after a notice that comes out of the quiet; soon after a look, once
//! no other notice follows for a moment, but not later than a ceiling; and without any notice, when it is time. Pure: whoever asks
//! says what time it is.

use std::time::Duration;

use tokio::time::Instant;

/// How patient it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From one look to the next while notices arrive.
    pub poll: Duration,
    /// From one look to the next while the way that notices take is down.
    pub poll_without_notices: Duration,
    /// So soon after a look, a notice waits that long for others, to look once for all of them.
    pub coalesce: Duration,
    /// A look is never put off longer than that after the first notice, however many follow.
    pub coalesce_max: Duration,
}

/// When to look next.
#[derive(Debug, Clone)]
pub struct Polling {
    patience: Patience,
    looked: Option<Instant>,
    /// The first and the last notice since the last look.
    noticed: Option<(Instant, Instant)>,
    /// Look without waiting: there may be what no notice will tell.
    at_once: Option<Instant>,
    notices: bool,
}

impl Polling {
    /// Nothing is known: the first look is due at once.
    pub fn new(patience: Patience) -> Self {
        Self { patience, looked: None, noticed: None, at_once: None, notices: false }
    }

    /// Something in some catalog of the server has changed.
    pub fn noticed(&mut self, now: Instant) {
        let first = self.noticed.map_or(now, |(first, _)| first);
        self.noticed = Some((first, now));
    }

    /// The way that notices take is there, or gone. In both cases some may have been missed.
    pub fn notices(&mut self, there: bool, now: Instant) {
        if self.notices != there {
            self.notices = there;
            self.at_once = Some(now);
        }
    }

    /// A look begins, and will see whatever was told before.
    pub fn looks(&mut self, now: Instant) {
        self.looked = Some(now);
        (self.noticed, self.at_once) = (None, None);
    }

    /// When the next look is due; None: at once.
    pub fn due(&self) -> Option<Instant> {
        let Patience { poll, poll_without_notices, coalesce, coalesce_max } = self.patience;
        let looked = self.looked?;
        let poll = if self.notices { poll } else { poll.min(poll_without_notices) };
        let told = self.noticed.map(|(first, last)| {
            // The original lets each notice wait, also the one that nothing follows.
            if first >= looked + coalesce { first } else { (last + coalesce).min(first + coalesce_max) }
        });
        [Some(looked + poll), told, self.at_once].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATIENCE: Patience = Patience {
        poll: Duration::from_secs(600),
        poll_without_notices: Duration::from_secs(15),
        coalesce: Duration::from_millis(100),
        coalesce_max: Duration::from_millis(500),
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A poller whose notices arrive, and which has just looked.
    fn calm(patience: Patience, now: Instant) -> Polling {
        let mut polling = Polling::new(patience);
        polling.notices(true, now);
        polling.looks(now);
        polling
    }

    #[test]
    fn the_first_look_is_due_at_once_and_the_next_after_the_poll() {
        let now = Instant::now();
        assert_eq!(Polling::new(PATIENCE).due(), None);
        assert_eq!(calm(PATIENCE, now).due(), Some(now + PATIENCE.poll));
    }

    #[test]
    fn a_notice_out_of_the_quiet_is_looked_at_at_once_and_those_that_follow_together() {
        let now = Instant::now();
        let mut polling = calm(PATIENCE, now);
        polling.noticed(now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000)));
        polling.looks(now + ms(1_000));
        assert_eq!(polling.due(), Some(now + ms(1_000) + PATIENCE.poll), "told once, looked once");
        for after in [1_010, 1_040, 1_090] {
            polling.noticed(now + ms(after));
        }
        assert_eq!(polling.due(), Some(now + ms(1_190)));
    }

    #[test]
    fn notices_every_50_ms_for_ever_are_looked_at_every_half_second() {
        let begun = Instant::now();
        let mut polling = calm(PATIENCE, begun);
        let mut looks = Vec::new();
        for tick in 1..=20 * 60 * 10 {
            let now = begun + ms(50) * tick;
            while let Some(due) = polling.due().filter(|due| *due <= now) {
                looks.push(due);
                polling.looks(due);
            }
            polling.noticed(now);
        }
        assert!(looks.len() > 1_000, "{}", looks.len());
        assert!(looks.windows(2).all(|pair| pair[1] - pair[0] <= ms(550)), "it starves");
        assert!(looks.windows(2).all(|pair| pair[1] - pair[0] >= ms(500)), "it does not coalesce");
    }

    #[test]
    fn without_notices_it_looks_at_once_and_then_more_often() {
        let now = Instant::now();
        let mut polling = calm(PATIENCE, now);
        polling.notices(false, now + ms(10));
        assert_eq!(polling.due(), Some(now + ms(10)));
        polling.looks(now + ms(10));
        polling.notices(false, now + ms(20));
        assert_eq!(polling.due(), Some(now + ms(10) + PATIENCE.poll_without_notices), "told once");
        polling.notices(true, now + ms(30));
        assert_eq!(polling.due(), Some(now + ms(30)), "what happened before the binding is seen");
    }

    #[test]
    fn a_poll_of_250_ms_goes_on_whatever_the_notices_do() {
        let now = Instant::now();
        let mut polling = calm(Patience { poll: ms(250), ..PATIENCE }, now);
        polling.notices(false, now);
        polling.looks(now);
        assert_eq!(polling.due(), Some(now + ms(250)));
    }

    proptest! {
        /// Whatever is told, and when: a look comes after each notice within the ceiling, and never later than the poll.
        #[test]
        fn no_notice_waits_longer_than_the_ceiling(events in proptest::collection::vec((0u64..900, 0u8..3), 1..200)) {
            let begun = Instant::now();
            let mut polling = calm(PATIENCE, begun);
            let (mut now, mut unseen, mut looked): (_, Option<Instant>, _) = (begun, None, begun);
            for (later, kind) in events {
                let next = now + ms(later);
                while let Some(due) = polling.due().filter(|due| *due <= next) {
                    let due = due.max(now);
                    if let Some(told) = unseen.take() {
                        prop_assert!(due - told <= PATIENCE.coalesce_max);
                    }
                    prop_assert!(due - looked <= PATIENCE.poll);
                    looked = due;
                    polling.looks(due);
                    now = due;
                }
                now = next;
                match kind {
                    0 => polling.notices(false, now),
                    1 => polling.notices(true, now),
                    _ => {
                        polling.noticed(now);
                        unseen.get_or_insert(now);
                    }
                }
            }
        }
    }
}
