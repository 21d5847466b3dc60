//! Order of hand-outs.

/// Sort key of a group in the hand-out order; the smallest eligible one is next (CONTRACT QO03).
///
/// The derived order implements the contract: never started first, then by oldest start, jitter as
/// signed number, attribute path by bytes, and fetcher number. A missing jitter sorts first; only
/// other programs leave one out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Time of the path's last hand-out, in unix seconds.
    pub last_started: Option<i64>,
    /// Hash of the attribute path, [`crate::jitter::jitter_hash`].
    pub order_jitter: Option<i64>,
    /// The attribute path.
    pub attr_path: String,
    /// Number of the fetcher in the database; older fetchers have smaller ones.
    pub fetcher_id: i64,
}

#[cfg(test)]
mod tests {
    use super::GroupKey;

    fn key(
        last_started: Option<i64>,
        order_jitter: Option<i64>,
        attr_path: &str,
        fetcher_id: i64,
    ) -> GroupKey {
        GroupKey { last_started, order_jitter, attr_path: attr_path.to_owned(), fetcher_id }
    }

    #[test]
    fn keys_sort_in_contract_order() {
        let sorted = [
            key(None, None, "z", 9),
            key(None, Some(-5), "b", 2),
            key(None, Some(3), "Z", 2),
            key(None, Some(3), "a", 1),
            key(None, Some(3), "a", 2),
            key(None, Some(3), "é", 1),
            key(Some(-1), Some(-9), "a", 1),
            key(Some(7), Some(-9), "a", 1),
        ];
        for pair in sorted.windows(2) {
            assert!(pair[0] < pair[1], "{:?} must come before {:?}", pair[0], pair[1]);
        }
    }
}
