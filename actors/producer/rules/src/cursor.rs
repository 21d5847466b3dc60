//! Cursor of a stencil, in a key of its document that the original ignores (CONTRACT SD05, SD06).

use crate::id::Id;

/// Size and end of a set. Two sets with equal summaries are taken to be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetSummary {
    /// Number of tangles.
    pub count: u64,
    /// Greatest `_id`; `None` for an empty set.
    pub greatest: Option<Id>,
}

impl SetSummary {
    /// Number of pages of `page_size` tangles.
    pub fn pages(&self, page_size: u32) -> u64 {
        self.count.div_ceil(u64::from(page_size.max(1)))
    }
}

/// Pairs that are left to push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remaining {
    /// All pairs.
    All,
    /// This pair and all that follow. Pages are named by their first tangle, so earlier insertions do not
    /// move them.
    From {
        /// First tangle of the page of rootstocks.
        root: Id,
        /// First tangle of the page of scions.
        scion: Id,
    },
    /// No pairs.
    Nothing,
}

/// Durable progress of a stencil, written after each acknowledged chunk. A crash repeats one chunk at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Tangles of a page, fixed when the stencil is started: pages of another size would overlap or leave
    /// gaps.
    pub page_size: u32,
    /// Summary of the rootstocks when the stencil was started.
    pub roots: SetSummary,
    /// Summary of the scions when the stencil was started.
    pub scions: SetSummary,
    /// Pairs left to push.
    pub remaining: Remaining,
    /// Acknowledged jobs.
    pub pushed: u64,
    /// Epoch of the writer's lease. A writer with an older epoch is refused.
    pub epoch: u64,
    /// Number of earlier attempts, in all epochs. It gives repeated jobs new jids.
    pub attempt: u32,
}

impl Cursor {
    /// Cursor of a stencil that has not been started.
    pub fn start(page_size: u32, roots: SetSummary, scions: SetSummary, epoch: u64) -> Self {
        Self { page_size, roots, scions, remaining: Remaining::All, pushed: 0, epoch, attempt: 0 }
    }

    /// Cursor for pushing all jobs again, over the present sets.
    #[must_use]
    pub fn restarted(&self, page_size: u32, roots: SetSummary, scions: SetSummary, epoch: u64) -> Self {
        Self { attempt: self.attempt.saturating_add(1), ..Self::start(page_size, roots, scions, epoch) }
    }

    /// Cursor under a new lease. One chunk may have been pushed without being recorded.
    #[must_use]
    pub fn resumed(&self, epoch: u64) -> Self {
        Self { epoch, attempt: self.attempt.saturating_add(1), ..*self }
    }

    /// Cursor after `jobs` more were acknowledged.
    #[must_use]
    pub fn advanced(&self, jobs: u64, remaining: Remaining) -> Self {
        Self { pushed: self.pushed.saturating_add(jobs), remaining, ..*self }
    }

    /// Returns true if the sets have not changed since the stencil was started.
    pub fn matches(&self, roots: SetSummary, scions: SetSummary) -> bool {
        (self.roots, self.scions) == (roots, scions)
    }

    /// Number of jobs if the sets do not change.
    pub fn total(&self) -> u64 {
        self.roots.pages(self.page_size).saturating_mul(self.scions.pages(self.page_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(count: u64) -> SetSummary {
        SetSummary { count, greatest: (count > 0).then_some(Id([count as u8; 12])) }
    }

    #[test]
    fn a_full_last_page_is_not_followed_by_an_empty_one() {
        for (count, size, pages) in
            [(0, 2, 0), (1, 2, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (20_000, 7, 2_858), (3, 0, 3)]
        {
            assert_eq!(summary(count).pages(size), pages, "{count} by {size}");
        }
    }

    #[test]
    fn total_is_the_product_of_both_page_counts() {
        assert_eq!(Cursor::start(2, summary(5), summary(3), 1).total(), 6);
        assert_eq!(Cursor::start(2, summary(0), summary(3), 1).total(), 0);
    }

    #[test]
    fn a_resumed_cursor_keeps_its_position_and_a_restarted_one_does_not() {
        let remaining = Remaining::From { root: Id([1; 12]), scion: Id([2; 12]) };
        let advanced = Cursor::start(2, summary(5), summary(3), 1).advanced(4, remaining);
        let resumed = advanced.resumed(9);
        assert_eq!((resumed.remaining, resumed.pushed, resumed.page_size), (remaining, 4, 2));
        assert_eq!((resumed.epoch, resumed.attempt), (9, 1));
        let restarted = resumed.restarted(7, summary(6), summary(3), 10);
        assert_eq!(
            (restarted.remaining, restarted.pushed, restarted.page_size, restarted.attempt),
            (Remaining::All, 0, 7, 2)
        );
        assert!(restarted.matches(summary(6), summary(3)) && !restarted.matches(summary(5), summary(3)));
        assert!(!restarted.matches(summary(6), summary(4)));
    }
}
