//! Calls of `add` that were answered before their rows were stored, by number.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use crate::verbs::Added;

/// Result of a call; None: it is not over.
pub(crate) type CallResult = Option<Result<Added, String>>;

/// Maximum number of calls.
const CALLS_MAX: usize = 64;
/// Time without a question after which a call may be forgotten.
const UNASKED_MAX: Duration = Duration::from_secs(60);

/// Calls whose callers ask for them again. Numbers begin at random, so that none is that of a former
/// incarnation.
#[derive(Debug)]
pub(crate) struct PendingCalls {
    calls: BTreeMap<u64, PendingCall>,
    next: u64,
}

#[derive(Debug)]
struct PendingCall {
    result: watch::Receiver<CallResult>,
    asked: Instant,
}

impl Default for PendingCalls {
    fn default() -> Self {
        // JSON numbers are exact up to 2^53.
        Self { calls: BTreeMap::new(), next: fastrand::u64(0..1 << 52) }
    }
}

impl PendingCalls {
    /// Adds a call. Returns its number, and the sender of its result. None: there are too many.
    pub(crate) fn add(&mut self) -> Option<(u64, watch::Sender<CallResult>)> {
        if self.calls.len() == CALLS_MAX {
            self.calls.retain(|_, call| call.asked.elapsed() < UNASKED_MAX);
        }
        if self.calls.len() == CALLS_MAX {
            return None;
        }
        let (sender, result) = watch::channel(None);
        self.next += 1;
        self.calls.insert(self.next, PendingCall { result, asked: Instant::now() });
        Some((self.next, sender))
    }

    pub(crate) fn get(&mut self, call: u64) -> Option<watch::Receiver<CallResult>> {
        let call = self.calls.get_mut(&call)?;
        call.asked = Instant::now();
        Some(call.result.clone())
    }

    /// Forgets a call.
    pub(crate) fn remove(&mut self, call: u64) {
        self.calls.remove(&call);
    }
}
