//! Handles that come from outside carry the incarnation they belong to.

use crate::Vitals;

/// A handle (a delivery tag, a connection, a mapping) with the incarnation that obtained it. A tag of the old channel
/// acked on the new one would ack another message, so its owner opens it against its own incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncarnationBound<T> {
    incarnation: u64,
    value: T,
}

impl<T> IncarnationBound<T> {
    /// Stamps `value` with the incarnation that obtained it.
    pub fn new(incarnation: u64, value: T) -> Self {
        Self { incarnation, value }
    }

    /// The value, if `owner` is still in the incarnation that obtained it; else it is dropped and counted as stale.
    pub fn open(self, owner: &Vitals) -> Option<T> {
        if self.incarnation == owner.incarnation() {
            return Some(self.value);
        }
        owner.count_stale();
        None
    }
}
