//! Waits of one child for others: for answers, and for room in a full mailbox. Written without a lock.

use std::{
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use crate::{mailbox_stats::MailboxStats, snapshot::WaitSnapshot};

/// Number of mailboxes whose waits a child records; waits for further ones are not shown.
const TARGETS_MAX: usize = 8;

/// Start of all times in [`Target::since_us`].
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Reason of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// The other child has not answered.
    Answer,
    /// The other child's mailbox is full.
    Room,
}

impl WaitKind {
    fn name(self) -> &'static str {
        match self {
            WaitKind::Answer => "answer",
            WaitKind::Room => "room",
        }
    }
}

/// Waits of one child, by mailbox and kind.
#[derive(Debug, Default)]
pub(crate) struct Waits([OnceLock<Target>; TARGETS_MAX]);

#[derive(Debug)]
struct Target {
    on: Arc<MailboxStats>,
    kind: WaitKind,
    waiting: AtomicUsize,
    /// Those of `waiting` that keep the child from its other messages.
    blocking: AtomicUsize,
    /// Start of the first wait, or the last progress since, in microseconds.
    since_us: AtomicU64,
}

impl Waits {
    /// Counts a wait that began at `since`; returns the number of its target, None if there are too many targets.
    pub(crate) fn begin(
        &self,
        on: &Arc<MailboxStats>,
        kind: WaitKind,
        since: Instant,
        blocks: bool,
    ) -> Option<usize> {
        let is_same = |target: &Target| Arc::ptr_eq(&target.on, on) && target.kind == kind;
        let number = self.0.iter().position(|slot| is_same(slot.get_or_init(|| Target::new(on, kind))))?;
        let target = self.0[number].get()?;
        if target.waiting.load(Relaxed) == 0 {
            target.since_us.store(micros(since), Relaxed);
        }
        target.waiting.fetch_add(1, Relaxed);
        if blocks {
            target.blocking.fetch_add(1, Relaxed);
        }
        Some(number)
    }

    /// Records an answer, or room: other waits for the same target count from now on.
    pub(crate) fn progress(&self, number: usize, now: impl FnOnce() -> Instant) {
        if let Some(target) = self.0[number].get()
            && target.waiting.load(Relaxed) > 1
        {
            target.since_us.store(micros(now()), Relaxed);
        }
    }

    pub(crate) fn end(&self, number: usize, blocks: bool) {
        if let Some(target) = self.0[number].get() {
            target.waiting.fetch_sub(1, Relaxed);
            if blocks {
                target.blocking.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Returns the current waits for mailboxes of the tree.
    pub(crate) fn current(&self, now: Instant) -> Vec<WaitSnapshot> {
        let now = micros(now);
        let state = |target: &Target| {
            let count = target.waiting.load(Relaxed);
            let since = target.since_us.load(Relaxed);
            (count > 0).then_some(WaitSnapshot {
                on: target.on.owner()?.to_string(),
                kind: target.kind.name().to_owned(),
                count,
                blocks: target.blocking.load(Relaxed) > 0,
                for_ms: now.saturating_sub(since) / 1_000,
            })
        };
        self.0.iter().map_while(OnceLock::get).filter_map(state).collect()
    }
}

impl Target {
    fn new(on: &Arc<MailboxStats>, kind: WaitKind) -> Self {
        Self {
            on: on.clone(),
            kind,
            waiting: AtomicUsize::new(0),
            blocking: AtomicUsize::new(0),
            since_us: AtomicU64::new(0),
        }
    }
}

fn micros(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*EPOCH).as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn owned(path: &str) -> Arc<MailboxStats> {
        let stats = MailboxStats::new(1);
        stats.set_owner(path.into());
        stats
    }

    #[test]
    fn waits_are_counted_by_target_and_age_from_the_last_progress() {
        let (waits, store) = (Waits::default(), owned("o/store"));
        let at = |seconds| *EPOCH + Duration::from_secs(seconds);
        let first = waits.begin(&store, WaitKind::Answer, at(10), false).expect("a target");
        let second = waits.begin(&store, WaitKind::Answer, at(12), true).expect("a target");
        assert_eq!(first, second);
        let state = |count, blocks, seconds: u64| WaitSnapshot {
            on: "o/store".to_owned(),
            kind: "answer".to_owned(),
            count,
            blocks,
            for_ms: 1_000 * seconds,
        };
        assert_eq!(waits.current(at(15)), [state(2, true, 5)]);
        waits.progress(second, || at(14));
        waits.end(second, true);
        assert_eq!(waits.current(at(15)), [state(1, false, 1)]);
        waits.end(first, false);
        assert_eq!(waits.current(at(15)), []);
        waits.begin(&store, WaitKind::Answer, at(20), true).expect("a target");
        assert_eq!(waits.current(at(21)), [state(1, true, 1)]);
    }

    #[test]
    fn further_targets_and_mailboxes_outside_of_the_tree_are_not_shown() {
        let (waits, now) = (Waits::default(), Instant::now());
        assert!(waits.begin(&MailboxStats::new(1), WaitKind::Answer, now, true).is_some());
        assert_eq!(waits.current(now), []);
        let stores: Vec<_> = (0..TARGETS_MAX).map(|i| owned(&format!("o/{i}"))).collect();
        let begun = stores.iter().map(|store| waits.begin(store, WaitKind::Room, now, true));
        assert_eq!(begun.flatten().count(), TARGETS_MAX - 1);
        assert_eq!(waits.current(now).len(), TARGETS_MAX - 1);
        assert!(waits.begin(&stores[0], WaitKind::Room, now, true).is_some(), "a known target");
        assert_eq!(waits.current(now)[0].count, 2);
    }
}
