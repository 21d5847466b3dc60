//! Rows that a rule does not claim for a while: failed rows, and rows that were candidates again
//! right after they were settled. Pure and bounded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
    time::Duration,
};

use orchestrator_supervise::Backoff;
use tokio::time::Instant;

/// Number of deferred rows at which claiming stops: the query has to skip each of them.
pub(crate) const DEFERRED_MAX: usize = 2_048;
/// Maximum number of rows with a history, deferred ones included. Beyond it, the row that would be
/// forgotten first is dropped.
pub(crate) const REMEMBERED_MAX: usize = 16_384;

/// Minimum delays, whatever the rule's backoff: without them, one recurring row would keep the
/// server busy.
const MIN_BACKOFF: Backoff = Backoff { first: Duration::from_millis(10), max: Duration::from_secs(1) };

/// Number of refused writes of a row after which it is reported.
const REFUSALS_MAX: u32 = 5;
/// Time for which a row is remembered after its last refusal, at least; its lease may be longer than its
/// deferral.
const REFUSAL_KEPT: Duration = Duration::from_secs(3_600);

/// History of a row.
#[derive(Debug)]
struct History {
    /// End of the deferral; None: not deferred.
    until: Option<Instant>,
    /// Consecutive failures.
    failures: u32,
    /// Consecutive claims right after a settlement.
    repeats: u32,
    /// Writes of its outcome that the server refused since it was last settled.
    refusals: u32,
    /// Settled, and not claimed since.
    settled: bool,
    /// Time at which this history is dropped.
    forget_at: Instant,
}

/// History of the rows of one rule.
#[derive(Debug)]
pub(crate) struct DeferredRows {
    backoff: Backoff,
    rows: HashMap<Rc<str>, History>,
    by_until: BTreeSet<(Instant, Rc<str>)>,
    by_forget: BTreeSet<(Instant, Rc<str>)>,
    /// Rows that the server refuses again and again, each with a text for operators.
    refused: BTreeMap<String, String>,
}

impl DeferredRows {
    /// Delays are at least 10 ms, and their maximum is at least 1 s, whatever `backoff` says.
    pub(crate) fn new(backoff: Backoff) -> Self {
        let (first, max) = (backoff.first.max(MIN_BACKOFF.first), backoff.max.max(MIN_BACKOFF.max));
        Self {
            backoff: Backoff { first, max },
            rows: HashMap::new(),
            by_until: BTreeSet::new(),
            by_forget: BTreeSet::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Defers a failed row, longer with each consecutive failure. `unit` is the random part of the
    /// delay, 0 to 1.
    pub(crate) fn failed(&mut self, key: &str, now: Instant, unit: f64) {
        let before = self.take(key);
        let failures = before.as_ref().map_or(0, |history| history.failures);
        let until = now + self.backoff.delay(failures, unit);
        let (repeats, refusals) = before.map_or((0, 0), |history| (history.repeats, history.refusals));
        let forget_at = until + self.backoff.max * 2;
        let history = History {
            until: Some(until),
            failures: failures.saturating_add(1),
            repeats,
            refusals,
            settled: false,
            forget_at,
        };
        self.put(key, history);
    }

    /// Records that the server refused to write the outcome of a failed row.
    pub(crate) fn refused(&mut self, key: &str, now: Instant, reason: &str) {
        let Some(mut history) = self.take(key) else { return };
        history.refusals = history.refusals.saturating_add(1);
        history.forget_at = history.forget_at.max(now + REFUSAL_KEPT);
        if history.refusals >= REFUSALS_MAX {
            let text = format!("the server refused row {key} {} times: {reason}", history.refusals);
            self.refused.insert(key.to_owned(), text);
        }
        self.put(key, history);
    }

    /// Returns a text about a row that the server refuses again and again.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refused.values().next().map(String::as_str)
    }

    /// Records that a row was claimed.
    pub(crate) fn claimed(&mut self, key: &str, now: Instant) {
        let Some(mut history) = self.take(key) else { return };
        if std::mem::take(&mut history.settled) {
            history.repeats = if now < history.forget_at { history.repeats.saturating_add(1) } else { 0 };
        }
        history.until = None;
        history.forget_at = history.forget_at.max(now + self.backoff.max * 2);
        self.put(key, history);
    }

    /// Records that a row was settled as done or dead. If it had been claimed right after its last
    /// settlement, it is deferred. Returns how often that happened in a row.
    pub(crate) fn settled(&mut self, key: &str, now: Instant, unit: f64) -> u32 {
        self.refused.remove(key);
        let repeats = self.take(key).map_or(0, |history| history.repeats);
        let until = repeats.checked_sub(1).map(|times| now + self.backoff.delay(times, unit));
        // A later claim has another cause than this settlement.
        let forget_at = until.unwrap_or(now) + self.backoff.first.max(MIN_BACKOFF.max);
        self.put(key, History { until, failures: 0, repeats, refusals: 0, settled: true, forget_at });
        repeats
    }

    /// Failed attempts of the first deferred row with such a key, and the end of its deferral.
    pub(crate) fn of(&self, is_it: impl Fn(&str) -> bool) -> Option<(u32, Instant)> {
        let (until, key) = self.by_until.iter().find(|(_, key)| is_it(key))?;
        Some((self.rows.get(key).map_or(0, |history| history.failures), *until))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_until.iter().map(|(_, key)| &**key)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_until.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_until.is_empty()
    }

    /// True once [`DEFERRED_MAX`] rows are deferred: no more may be claimed.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= DEFERRED_MAX
    }

    /// Returns the earliest end of a deferral.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_until.first().map(|(until, _)| *until)
    }

    /// Ends the deferrals that are over and drops old histories; returns true if a deferral ended.
    pub(crate) fn release(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((until, _)) = self.by_until.first()
            && *until <= now
            && let Some((_, key)) = self.by_until.pop_first()
        {
            any = true;
            if let Some(history) = self.rows.get_mut(&key) {
                history.until = None;
            }
        }
        while let Some((forget_at, key)) = self.by_forget.first()
            && *forget_at <= now
        {
            let key = key.clone();
            self.refused.remove(&*key);
            self.take(&key);
        }
        any
    }

    fn take(&mut self, key: &str) -> Option<History> {
        let (key, history) = self.rows.remove_entry(key)?;
        if let Some(until) = history.until {
            self.by_until.remove(&(until, key.clone()));
        }
        self.by_forget.remove(&(history.forget_at, key));
        Some(history)
    }

    fn put(&mut self, key: &str, history: History) {
        let key: Rc<str> = key.into();
        if let Some(until) = history.until {
            self.by_until.insert((until, key.clone()));
        }
        self.by_forget.insert((history.forget_at, key.clone()));
        self.rows.insert(key, history);
        while self.rows.len() > REMEMBERED_MAX {
            let idle =
                |(_, key): &&(Instant, Rc<str>)| self.rows.get(key).is_none_or(|row| row.until.is_none());
            let Some((_, first)) = self.by_forget.iter().find(idle) else { return };
            let first = first.clone();
            self.refused.remove(&*first);
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
    fn a_row_that_recurs_at_once_is_deferred_longer_each_time() {
        let mut now = Instant::now();
        let mut rows = DeferredRows::new(BACKOFF);
        let mut delays = Vec::new();
        for _ in 0..10 {
            rows.claimed("a", now);
            let repeats = rows.settled("a", now, 0.5);
            let until = rows.next().unwrap_or(now);
            delays.push((repeats, (until - now).as_secs()));
            now = until;
            rows.release(now);
        }
        assert_eq!(delays[..4], [(0, 0), (1, 1), (2, 2), (3, 4)]);
        assert_eq!(delays[9], (9, 60));
    }

    #[test]
    fn a_row_that_recurs_later_is_not_deferred() {
        let mut now = Instant::now();
        let mut rows = DeferredRows::new(BACKOFF);
        for _ in 0..5 {
            rows.claimed("a", now);
            assert_eq!(rows.settled("a", now, 0.5), 0);
            now += secs(2);
            rows.release(now);
        }
        assert_eq!((rows.len(), rows.rows.len()), (0, 0), "forgotten");
    }

    #[test]
    fn failures_grow_the_delay_until_the_row_is_done() {
        let now = Instant::now();
        let mut rows = DeferredRows::new(Backoff { first: Duration::ZERO, max: Duration::ZERO });
        let delay = |rows: &DeferredRows| rows.next().unwrap() - now;
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), MIN_BACKOFF.first, "never without any");
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), MIN_BACKOFF.first * 2);
        rows.claimed("a", now);
        rows.settled("a", now, 0.5);
        assert_eq!((rows.len(), rows.next()), (0, None));
        rows.claimed("a", now);
        rows.failed("a", now, 0.5);
        assert_eq!(delay(&rows), MIN_BACKOFF.first, "from the beginning");
    }

    #[test]
    fn the_history_is_bounded() {
        let now = Instant::now();
        let mut rows = DeferredRows::new(BACKOFF);
        for row in 0..DEFERRED_MAX {
            assert!(!rows.is_full());
            rows.failed(&format!("failed {row}"), now, 0.5);
        }
        assert!(rows.is_full());
        for row in 0..100_000 {
            rows.settled(&format!("done {row}"), now, 0.5);
        }
        assert_eq!((rows.rows.len(), rows.len()), (REMEMBERED_MAX, DEFERRED_MAX));
        assert!(rows.release(now + secs(2)) && !rows.is_full());
        rows.release(now + secs(1_000));
        assert_eq!((rows.rows.len(), rows.by_until.len(), rows.by_forget.len()), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn the_indexes_agree(steps in proptest::collection::vec((0u8..4, 0u8..5, 0u64..3_000), 0..300)) {
            let mut now = Instant::now();
            let mut rows = DeferredRows::new(BACKOFF);
            for (what, row, later) in steps {
                now += Duration::from_millis(later);
                let key = row.to_string();
                match what {
                    0 => rows.failed(&key, now, 0.3),
                    1 => rows.claimed(&key, now),
                    2 => drop(rows.settled(&key, now, 0.7)),
                    _ => drop(rows.release(now)),
                }
                let held = rows.rows.values().filter(|history| history.until.is_some()).count();
                prop_assert_eq!(held, rows.by_until.len());
                prop_assert_eq!(rows.rows.len(), rows.by_forget.len());
            }
        }
    }
}
