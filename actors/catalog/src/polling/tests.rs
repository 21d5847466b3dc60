//! The decision when to poll, without a server.

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

/// State right after a poll, with notices up.
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
        let (answered, noticed) = (now + ms(1_020), now + ms(if before_the_answer { 1_010 } else { 1_030 }));
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
