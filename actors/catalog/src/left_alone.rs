//! Rows that a rule leaves alone for a while: those that failed, and those that were candidates again right after their end. Pure
//! book-keeping, bounded.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
    time::Duration,
};

use orchestrator_supervise::Backoff;
use tokio::time::Instant;

/// Rows that are left alone at once before no more are claimed: the question for candidates has to step over each of them.
pub const LEFT_ALONE_MAX: usize = 2_048;
/// Rows that are remembered, those left alone included. Beyond, those are forgotten that would be forgotten first.
pub const REMEMBERED_MAX: usize = 16_384;

/// Shortest delays of rows that come back at once, whatever the rule's backoff is: without one, a single row keeps the server busy.
const SHORTEST: Backoff = Backoff { first: Duration::from_millis(10), max: Duration::from_secs(1) };

/// History of a row.
#[derive(Debug)]
struct Memory {
    /// Until when it is left alone; None: that is over.
    until: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    /// Times in a row that it was claimed again right after its end.
    repeats: u32,
    /// It was settled, and has not been claimed since.
    ended: bool,
    /// Until when this is remembered.
    forget: Instant,
}

/// The rows of one rule.
#[derive(Debug)]
pub struct LeftAlone {
    backoff: Backoff,
    rows: HashMap<Rc<str>, Memory>,
    by_until: BTreeSet<(Instant, Rc<str>)>,
    by_forget: BTreeSet<(Instant, Rc<str>)>,
}

impl LeftAlone {
    /// No row yet; delays are those of `backoff`, and at least 10 ms, up to 1 s.
    pub fn new(backoff: Backoff) -> Self {
        let (first, max) = (backoff.first.max(SHORTEST.first), backoff.max.max(SHORTEST.max));
        Self {
            backoff: Backoff { first, max },
            rows: HashMap::new(),
            by_until: BTreeSet::new(),
            by_forget: BTreeSet::new(),
        }
    }

    /// A row failed: it is left alone, the longer the more often it did. `unit` is the random part of the delay, 0 to 1.
    pub fn failed(&mut self, key: &str, now: Instant, unit: f64) {
        let before = self.take(key);
        let failures = before.as_ref().map_or(0, |memory| memory.failures);
        let until = now + self.backoff.delay(failures, unit);
        let repeats = before.map_or(0, |memory| memory.repeats);
        let forget = until + self.backoff.max * 2;
        let memory = Memory {
            until: Some(until),
            failures: failures.saturating_add(1),
            repeats,
            ended: false,
            forget,
        };
        self.put(key, memory);
    }

    /// A row is claimed.
    pub fn claimed(&mut self, key: &str, now: Instant) {
        let Some(mut memory) = self.take(key) else { return };
        if std::mem::take(&mut memory.ended) {
            memory.repeats = if now < memory.forget { memory.repeats.saturating_add(1) } else { 0 };
        }
        memory.until = None;
        memory.forget = memory.forget.max(now + self.backoff.max * 2);
        self.put(key, memory);
    }

    /// A row is settled for good. If it had been claimed right after its last end, it is left alone before it may be claimed again.
    /// Returns how often that happened in a row.
    pub fn ended(&mut self, key: &str, now: Instant, unit: f64) -> u32 {
        let repeats = self.take(key).map_or(0, |memory| memory.repeats);
        let until = repeats.checked_sub(1).map(|times| now + self.backoff.delay(times, unit));
        // Whoever claims it later does so for another reason.
        let forget = until.unwrap_or(now) + self.backoff.first.max(SHORTEST.max);
        self.put(key, Memory { until, failures: 0, repeats, ended: true, forget });
        repeats
    }

    /// Keys of the rows that are left alone.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_until.iter().map(|(_, key)| &**key)
    }

    /// Number of rows that are left alone.
    pub fn len(&self) -> usize {
        self.by_until.len()
    }

    /// Tells whether no row is left alone.
    pub fn is_empty(&self) -> bool {
        self.by_until.is_empty()
    }

    /// Tells whether so many rows are left alone that no more are to be claimed.
    pub fn is_full(&self) -> bool {
        self.len() >= LEFT_ALONE_MAX
    }

    /// When the next row may be claimed again.
    pub fn next(&self) -> Option<Instant> {
        self.by_until.first().map(|(until, _)| *until)
    }

    /// Lets rows go whose time is over; tells whether there were any.
    pub fn release(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((until, _)) = self.by_until.first()
            && *until <= now
            && let Some((_, key)) = self.by_until.pop_first()
        {
            any = true;
            if let Some(memory) = self.rows.get_mut(&key) {
                memory.until = None;
            }
        }
        while let Some((forget, key)) = self.by_forget.first()
            && *forget <= now
        {
            let key = key.clone();
            self.take(&key);
        }
        any
    }

    fn take(&mut self, key: &str) -> Option<Memory> {
        let (key, memory) = self.rows.remove_entry(key)?;
        if let Some(until) = memory.until {
            self.by_until.remove(&(until, key.clone()));
        }
        self.by_forget.remove(&(memory.forget, key));
        Some(memory)
    }

    fn put(&mut self, key: &str, memory: Memory) {
        let key: Rc<str> = key.into();
        if let Some(until) = memory.until {
            self.by_until.insert((until, key.clone()));
        }
        self.by_forget.insert((memory.forget, key.clone()));
        self.rows.insert(key, memory);
        while self.rows.len() > REMEMBERED_MAX {
            let idle =
                |(_, key): &&(Instant, Rc<str>)| self.rows.get(key).is_none_or(|row| row.until.is_none());
            let Some((_, first)) = self.by_forget.iter().find(idle) else { return };
            let first = first.clone();
            self.take(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_row_that_comes_back_at_once_waits_ever_longer() {
        let mut now = Instant::now();
        let mut rows = LeftAlone::new(BACKOFF);
        let mut delays = Vec::new();
        for _ in 0..10 {
            rows.claimed("a", now);
            let repeats = rows.ended("a", now, 0.5);
            let until = rows.next().unwrap_or(now);
            delays.push((repeats, (until - now).as_secs()));
            now = until;
            rows.release(now);
        }
        assert_eq!(delays[..4], [(0, 0), (1, 1), (2, 2), (3, 4)]);
        assert_eq!(delays[9], (9, 60));
    }

    #[test]
    fn a_row_that_comes_back_later_is_claimed_at_once() {
        let mut now = Instant::now();
        let mut rows = LeftAlone::new(BACKOFF);
        for _ in 0..5 {
            rows.claimed("a", now);
            assert_eq!(rows.ended("a", now, 0.5), 0);
            now += secs(2);
            rows.release(now);
        }
        assert_eq!((rows.len(), rows.rows.len()), (0, 0), "forgotten");
    }

    #[test]
    fn failures_grow_the_delay_until_the_row_is_done() {
        let now = Instant::now();
        let mut rows = LeftAlone::new(Backoff { first: Duration::ZERO, max: Duration::ZERO });
        let delay = |rows: &LeftAlone| rows.next().unwrap() - now;
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), SHORTEST.first, "never without any");
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), SHORTEST.first * 2);
        rows.claimed("a", now);
        rows.ended("a", now, 0.5);
        assert_eq!((rows.len(), rows.next()), (0, None));
        rows.claimed("a", now);
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), SHORTEST.first, "from the beginning");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let now = Instant::now();
        let mut rows = LeftAlone::new(BACKOFF);
        for row in 0..LEFT_ALONE_MAX {
            assert!(!rows.is_full());
            rows.failed(&format!("failed {row}"), now, 0.5);
        }
        assert!(rows.is_full());
        for row in 0..100_000 {
            rows.ended(&format!("done {row}"), now, 0.5);
        }
        assert_eq!((rows.rows.len(), rows.len()), (REMEMBERED_MAX, LEFT_ALONE_MAX));
        assert!(rows.release(now + secs(2)) && !rows.is_full());
        rows.release(now + secs(1_000));
        assert_eq!((rows.rows.len(), rows.by_until.len(), rows.by_forget.len()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn the_indexes_agree(steps in proptest::collection::vec((0u8..4, 0u8..5, 0u64..3_000), 0..300)) {
            let mut now = Instant::now();
            let mut rows = LeftAlone::new(BACKOFF);
            for (what, row, later) in steps {
                now += Duration::from_millis(later);
                let key = row.to_string();
                match what {
                    0 => rows.failed(&key, now, 0.3),
                    1 => rows.claimed(&key, now),
                    2 => drop(rows.ended(&key, now, 0.7)),
                    _ => drop(rows.release(now)),
                }
                let held = rows.rows.values().filter(|memory| memory.until.is_some()).count();
                prop_assert_eq!(held, rows.by_until.len());
                prop_assert_eq!(rows.rows.len(), rows.by_forget.len());
            }
        }
    }
}
