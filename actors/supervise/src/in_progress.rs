//! Work in progress of a child: shown in the tree while it lasts, named in the exit when it is lost.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;

/// Work items in progress of one child, oldest first: the message being handled, and the items that the child names itself.
#[derive(Debug, Default)]
pub(crate) struct WorkInProgress(Mutex<Items>);

#[derive(Debug, Default)]
struct Items {
    current: Vec<(u64, &'static str, Instant)>,
    next_id: u64,
    lost: Option<&'static str>,
}

/// Guard of one work item in progress; dropping it ends the item.
#[derive(Debug)]
pub struct WorkGuard {
    work: Arc<WorkInProgress>,
    id: u64,
}

impl WorkInProgress {
    pub(crate) fn begin(self: &Arc<Self>, name: &'static str) -> WorkGuard {
        let mut items = self.0.lock();
        let id = items.next_id;
        items.next_id += 1;
        items.lost = None;
        items.current.push((id, name, Instant::now()));
        WorkGuard { work: self.clone(), id }
    }

    pub(crate) fn oldest(&self) -> Option<(&'static str, Instant)> {
        self.0.lock().current.first().map(|(_, name, since)| (*name, *since))
    }

    /// Marks the oldest item as lost: its incarnation is about to be dropped.
    pub(crate) fn mark_lost(&self) {
        let mut items = self.0.lock();
        items.lost = items.lost.or(items.current.first().map(|(_, name, _)| *name));
    }

    /// Returns the item that was lost since the last call.
    pub(crate) fn take_lost(&self) -> Option<&'static str> {
        self.0.lock().lost.take()
    }

    fn end(&self, id: u64) {
        let mut items = self.0.lock();
        let Some(position) = items.current.iter().rposition(|item| item.0 == id) else {
            return;
        };
        let (_, name, _) = items.current.remove(position);
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
