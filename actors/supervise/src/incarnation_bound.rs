//! Handles from outside that are valid in one incarnation only.

use crate::Vitals;

/// A handle (delivery tag, connection, mapping) that is valid only in the incarnation that obtained it.
///
/// A delivery tag of a closed channel, acknowledged on the next one, would acknowledge another message. The owner therefore opens
/// the handle against its current incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncarnationBound<T> {
    incarnation: u64,
    value: T,
}

impl<T> IncarnationBound<T> {
    /// Binds `value` to the incarnation that obtained it.
    pub fn new(incarnation: u64, value: T) -> Self {
        Self { incarnation, value }
    }

    /// Returns the value if `owner` is still in the same incarnation; otherwise drops it and counts it as stale.
    pub fn open(self, owner: &Vitals) -> Option<T> {
        if self.incarnation == owner.incarnation() {
            return Some(self.value);
        }
        owner.count_stale();
        None
    }
}
