//! Kinds of requests that a connected peer answers with an error.

use std::{collections::BTreeMap, time::Instant};

use parking_lot::Mutex;

use crate::{clock::steady_ms, link::Link};

/// Refusals at present, by the kind of request.
#[derive(Debug, Default)]
pub(crate) struct LinkRefusals(Mutex<BTreeMap<String, Refusal>>);

#[derive(Debug)]
struct Refusal {
    since_ms: u64,
    reason: String,
    retry_at: Instant,
}

impl LinkRefusals {
    /// Returns the state of a link whose peer refuses requests.
    pub(crate) fn state(&self) -> Option<Link> {
        let refusals = self.0.lock();
        let Refusal { since_ms, reason, retry_at } = refusals.values().next()?;
        Some(Link::Down { since_ms: *since_ms, reason: reason.clone(), retry_at: *retry_at })
    }

    /// Records a refusal, and returns true if requests of the kind were accepted before.
    pub(crate) fn add(&self, what: &str, reason: String, retry_at: Instant) -> bool {
        let mut refusals = self.0.lock();
        let before = refusals.get(what).map(|before| before.since_ms);
        let since_ms = before.unwrap_or_else(steady_ms);
        refusals.insert(what.to_owned(), Refusal { since_ms, reason, retry_at });
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
