//! The order in which jobs are handed out.

/// The place of a group in the queue; the smallest eligible one is next (CONTRACT QO03).
///
/// The derived order is the contract's: never started before started, then oldest start, then jitter as a signed number,
/// then attribute path byte by byte, then the older fetcher. A missing jitter, which only foreign writers leave, sorts first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// When a job of this attribute path was last started, in unix seconds.
    pub last_started: Option<i64>,
    /// See [`crate::jitter::jitter_hash`].
    pub order_jitter: Option<i64>,
    /// The attribute path.
    pub attr_path: String,
    /// The database's number of the fetcher; older fetchers have smaller ones.
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
    fn sorts_as_the_contract_says() {
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
