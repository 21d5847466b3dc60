//! Work in progress of a child: shown in the tree while it lasts, named in the exit when it is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::*},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Time without progress after which a work item, or a poll of the arbiter, counts as stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Work items in progress of one child, oldest first: the message being handled, and the items that the child
/// names itself.
#[derive(Debug, Default)]
pub(crate) struct WorkInProgress {
    items: Mutex<Items>,
    /// The next item that begins panics.
    panics: AtomicBool,
}

#[derive(Debug, Default)]
struct Items {
    current: Vec<WorkItem>,
    next_id: u64,
    lost: Option<&'static str>,
}

/// One work item in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkItem {
    id: u64,
    pub(crate) name: &'static str,
    pub(crate) since: Instant,
    /// Start, or last report of progress.
    advanced: Instant,
}

impl WorkItem {
    /// Time without progress.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.advanced)
    }

    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.silence(now) > STUCK_AFTER
    }
}

/// Guard of one work item in progress; dropping it ends the item.
#[derive(Debug)]
pub struct WorkGuard {
    work: Arc<WorkInProgress>,
    id: u64,
}

impl WorkInProgress {
    pub(crate) fn begin(self: &Arc<Self>, name: &'static str, now: Instant) -> WorkGuard {
        let mut items = self.items.lock();
        let id = items.next_id;
        items.next_id += 1;
        items.lost = None;
        items.current.push(WorkItem { id, name, since: now, advanced: now });
        drop(items);
        let guard = WorkGuard { work: self.clone(), id };
        assert!(!self.panics.swap(false, AcqRel), "injected panic");
        guard
    }

    /// Sets whether the next item that begins panics.
    pub(crate) fn set_panics(&self, panics: bool) {
        self.panics.store(panics, Release);
    }

    /// Records progress of all items.
    pub(crate) fn progress(&self, now: Instant) {
        self.items.lock().current.iter_mut().for_each(|item| item.advanced = now);
    }

    pub(crate) fn oldest(&self) -> Option<WorkItem> {
        self.items.lock().current.first().copied()
    }

    /// Marks the oldest item as lost: its incarnation is about to be dropped.
    pub(crate) fn mark_lost(&self) {
        let mut items = self.items.lock();
        items.lost = items.lost.or(items.current.first().map(|item| item.name));
    }

    /// Item that was lost since the last call.
    pub(crate) fn take_lost(&self) -> Option<&'static str> {
        self.items.lock().lost.take()
    }

    fn end(&self, id: u64) {
        let mut items = self.items.lock();
        let Some(position) = items.current.iter().rposition(|item| item.id == id) else {
            return;
        };
        let WorkItem { name, .. } = items.current.remove(position);
        if std::thread::panicking() {
            // Unwinding drops the innermost guard first, so the outermost name, the message's, stays.
            items.lost = Some(name);
        }
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        self.work.end(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_reports_progress_is_not_stuck() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let work = Arc::new(WorkInProgress::default());
        let file = work.begin("file", start);
        for seconds in 1..60 {
            assert!(!work.oldest().unwrap().is_stuck(at(seconds)));
            work.progress(at(seconds));
        }
        let item = work.oldest().unwrap();
        assert_eq!((item.name, item.since, item.silence(at(61))), ("file", start, Duration::from_secs(2)));
        assert!(item.is_stuck(at(61)), "it reports none for more than a second");
        drop(file);
        work.progress(at(62));
        let _next = work.begin("next", at(63));
        let silence = |seconds| work.oldest().map(|item| item.silence(at(seconds)));
        assert_eq!(silence(64), Some(Duration::from_secs(1)), "progress of an item is not that of the next");
    }
}
