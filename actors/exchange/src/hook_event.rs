//! Hook events: facts about a subsystem's work that its children report to the hooks, which store them. Not
//! part of the event log of the tree, since there may be many of them, and the hooks must miss none.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use orchestrator_observe::now_ms;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// Maximum number of events that wait for the reader.
const WAITING_MAX: usize = 4_096;

/// A fact that a child has reported.
#[derive(Debug, Clone, PartialEq)]
pub struct HookEvent {
    /// Sequence number in this process, from 1.
    pub number: u64,
    /// Wall clock time, milliseconds since 1970.
    pub at_ms: u64,
    /// Tree path of the child.
    pub path: String,
    /// Kind, such as `catalog.dead`.
    pub kind: &'static str,
    /// Details, an object.
    pub data: Value,
}

/// Events that wait for the reader. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HookEvents(Arc<HookState>);

#[derive(Debug, Default)]
struct HookState {
    log: Mutex<HookLog>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct HookLog {
    /// Kinds that the reader stores.
    wanted: BTreeSet<&'static str>,
    waiting: VecDeque<HookEvent>,
    newest: u64,
    refused: u64,
}

impl HookEvents {
    /// Sets the kinds that the reader stores. Others are not kept.
    pub fn want(&self, kinds: impl IntoIterator<Item = &'static str>) {
        self.0.log.lock().wanted = kinds.into_iter().collect();
    }

    /// Reports a fact about the child at `path`, if the reader stores its `kind`. The caller escapes and
    /// limits texts in `data`, an object, by `orchestrator_text::sanitize`.
    pub fn report(&self, path: &str, kind: &'static str, data: impl FnOnce() -> Value) {
        let mut log = self.0.log.lock();
        if !log.wanted.contains(kind) {
            return;
        }
        if log.waiting.len() == WAITING_MAX {
            log.refused += 1;
            return;
        }
        log.newest += 1;
        let number = log.newest;
        log.waiting.push_back(HookEvent {
            number,
            at_ms: now_ms(),
            path: path.to_owned(),
            kind,
            data: data(),
        });
        self.0.arrived.notify_one();
    }

    /// At most `limit`; they wait until [`Self::remove_until`].
    pub fn oldest(&self, limit: usize) -> Vec<HookEvent> {
        self.0.log.lock().waiting.iter().take(limit).cloned().collect()
    }

    /// Removes the events up to `number`, which the reader has stored.
    pub fn remove_until(&self, number: u64) {
        self.0.log.lock().waiting.retain(|event| event.number > number);
    }

    /// Number of events that were refused since the last call, because too many waited.
    pub fn take_refused(&self) -> u64 {
        std::mem::take(&mut self.0.log.lock().refused)
    }

    /// Waits until an event has come since the last call.
    pub async fn arrived(&self) {
        self.0.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wanted_events_wait_until_they_are_removed() {
        let log = HookEvents::default();
        log.report("o/a", "lost", || unreachable!("nobody wants it"));
        log.want(["lost"]);
        log.report("o/a", "other", || unreachable!("nobody wants it"));
        for i in 0..WAITING_MAX + 2 {
            log.report("o/a", "lost", || json!({ "i": i }));
        }
        assert_eq!((log.take_refused(), log.take_refused()), (2, 0));
        let oldest = log.oldest(2);
        assert_eq!((oldest[0].number, oldest[1].number, oldest.len()), (1, 2, 2));
        assert_eq!((oldest[0].path.as_str(), &oldest[1].data), ("o/a", &json!({ "i": 1 })));
        log.remove_until(2);
        assert_eq!(log.oldest(1)[0].number, 3);
        assert_eq!(log.oldest(usize::MAX).len(), WAITING_MAX - 2);
    }
}
