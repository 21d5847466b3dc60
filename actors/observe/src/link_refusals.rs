//! Kinds of requests that a connected peer answers with an error.

use std::{collections::BTreeMap, time::Instant};

use parking_lot::Mutex;

use crate::{clock::steady_ms, link_failure::LinkFailure};

/// Refusals at present, by the kind of request.
#[derive(Debug, Default)]
pub(crate) struct LinkRefusals(Mutex<BTreeMap<String, Refusal>>);

/// Refusal of the last request of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    /// Time of the first one, by the steady clock.
    pub(crate) since_ms: u64,
    pub(crate) failure: LinkFailure,
    pub(crate) retry_at: Instant,
}

impl LinkRefusals {
    /// Any one of them.
    pub(crate) fn first(&self) -> Option<Refusal> {
        self.0.lock().values().next().cloned()
    }

    /// Records a refusal, and returns true if requests of the kind were accepted before.
    pub(crate) fn add(&self, what: &str, failure: LinkFailure, retry_at: Instant) -> bool {
        let mut refusals = self.0.lock();
        let before = refusals.get(what).map(|before| before.since_ms);
        let since_ms = before.unwrap_or_else(steady_ms);
        refusals.insert(what.to_owned(), Refusal { since_ms, failure, retry_at });
        before.is_none()
    }

    /// Forgets the refusals of a kind, and returns true if there was one.
    pub(crate) fn remove(&self, what: &str) -> bool {
        self.0.lock().remove(what).is_some()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
