//! Waits of one child for others: for answers, and for room in a full mailbox.

use std::{sync::Arc, time::Instant};

use orchestrator_observe::WaitSnapshot;
use parking_lot::Mutex;

use crate::mailbox_stats::MailboxStats;

/// Number of targets from which a further one replaces a target without waits. Fewer are kept, so that a wait
/// for a known target neither allocates nor counts a reference.
const TARGETS_KEPT: usize = 8;

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

/// Waits of one child, by mailbox and kind. Only the child's own code and snapshots of it take the lock.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Target>>);

#[derive(Debug)]
struct Target {
    on: Arc<MailboxStats>,
    kind: WaitKind,
    waiting: usize,
    /// Those of `waiting` that keep the child from its other messages.
    blocking: usize,
    /// Start of the first wait, or the last progress since.
    since: Instant,
}

impl Waits {
    /// Counts a wait that began at `since`; returns the number of its target until the wait ends.
    pub(crate) fn begin(
        &self,
        on: &Arc<MailboxStats>,
        kind: WaitKind,
        since: Instant,
        blocks: bool,
    ) -> usize {
        let mut targets = self.0.lock();
        let known = targets.iter().position(|target| Arc::ptr_eq(&target.on, on) && target.kind == kind);
        let number = known.unwrap_or_else(|| {
            let new = Target { on: on.clone(), kind, waiting: 0, blocking: 0, since };
            let unused = targets.iter().position(|target| target.waiting == 0);
            match unused.filter(|_| targets.len() >= TARGETS_KEPT) {
                Some(unused) => {
                    targets[unused] = new;
                    unused
                }
                None => {
                    targets.push(new);
                    targets.len() - 1
                }
            }
        });
        let target = &mut targets[number];
        if target.waiting == 0 {
            target.since = since;
        }
        target.waiting += 1;
        target.blocking += usize::from(blocks);
        number
    }

    /// Ends a wait. After an answer, or room, other waits for the same target count from `progress`.
    pub(crate) fn end(&self, number: usize, blocks: bool, progress: Option<impl FnOnce() -> Instant>) {
        let target = &mut self.0.lock()[number];
        target.waiting -= 1;
        target.blocking -= usize::from(blocks);
        if let Some(progress) = progress.filter(|_| target.waiting > 0) {
            target.since = progress();
        }
    }

    pub(crate) fn current(&self, now: Instant) -> Vec<WaitSnapshot> {
        let state = |target: &Target| {
            (target.waiting > 0).then_some(WaitSnapshot {
                on: target.on.owner()?.to_string(),
                kind: target.kind.name().to_owned(),
                count: target.waiting,
                blocks: target.blocking > 0,
                for_ms: u64::try_from(now.saturating_duration_since(target.since).as_millis()).ok()?,
            })
        };
        self.0.lock().iter().filter_map(state).collect()
    }
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
        let (waits, store, begun) = (Waits::default(), owned("o/store"), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let first = waits.begin(&store, WaitKind::Answer, at(10), false);
        let second = waits.begin(&store, WaitKind::Answer, at(12), true);
        assert_eq!(first, second);
        let state = |count, blocks, seconds: u64| WaitSnapshot {
            on: "o/store".to_owned(),
            kind: "answer".to_owned(),
            count,
            blocks,
            for_ms: 1_000 * seconds,
        };
        assert_eq!(waits.current(at(15)), [state(2, true, 5)]);
        waits.end(second, true, Some(|| at(14)));
        assert_eq!(waits.current(at(15)), [state(1, false, 1)]);
        waits.end(first, false, Some(|| at(15)));
        assert_eq!(waits.current(at(15)), []);
        waits.begin(&store, WaitKind::Answer, at(20), true);
        assert_eq!(waits.current(at(21)), [state(1, true, 1)]);
    }

    #[test]
    fn a_wait_is_shown_whatever_the_child_waited_for_before() {
        let (waits, now) = (Waits::default(), Instant::now());
        let stores: Vec<_> = (0..2 * TARGETS_KEPT).map(|i| owned(&format!("o/{i}"))).collect();
        let shown = || waits.current(now).into_iter().map(|wait| wait.on).collect::<Vec<_>>();
        for (number, store) in stores.iter().enumerate() {
            let wait = waits.begin(store, WaitKind::Room, now, true);
            assert_eq!(shown(), [format!("o/{number}")]);
            waits.end(wait, true, Some(|| now));
        }
        assert_eq!((shown().len(), waits.0.lock().len()), (0, TARGETS_KEPT), "few are kept");
        let begun: Vec<_> =
            stores.iter().map(|store| waits.begin(store, WaitKind::Answer, now, true)).collect();
        assert_eq!(shown().len(), stores.len(), "as many as there are at once");
        for wait in begun {
            waits.end(wait, true, Some(|| now));
        }
        assert!(shown().is_empty());
    }

    #[test]
    fn waits_for_mailboxes_outside_of_the_tree_are_not_shown() {
        let (waits, now) = (Waits::default(), Instant::now());
        waits.begin(&MailboxStats::new(1), WaitKind::Answer, now, true);
        assert_eq!(waits.current(now), []);
    }
}
