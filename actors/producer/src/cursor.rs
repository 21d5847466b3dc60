//! How far a stencil came: kept in its document, in a key that the original takes no notice of.

use crate::id::Id;

/// What is known of a set without walking it: two equal ones are taken for the same set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Census {
    /// How many tangles.
    pub count: u64,
    /// The greatest `_id`; None if there are no tangles.
    pub greatest: Option<Id>,
}

impl Census {
    /// Pages of at most `page_size` tangles that it takes.
    pub fn pages(&self, page_size: u32) -> u64 {
        self.count.div_ceil(u64::from(page_size.max(1)))
    }
}

/// What is left of a stencil's pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// All.
    All,
    /// The pairs from this one on. Pages are named by their first tangle: what is inserted before it moves nothing.
    From {
        /// First tangle of the page of rootstocks.
        root: Id,
        /// First tangle of the page of scions.
        scion: Id,
    },
    /// Nothing.
    Nothing,
}

/// A stencil's durable cursor: written after each chunk that the queue has acknowledged, so that a crash pushes again what
/// one chunk holds at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Tangles of a page; pinned, since pages of another size would overlap or leave gaps.
    pub page_size: u32,
    /// The rootstocks when the pages were first looked at.
    pub roots: Census,
    /// The scions then.
    pub scions: Census,
    /// What is left.
    pub rest: Rest,
    /// Jobs that the queue has acknowledged.
    pub pushed: u64,
    /// Epoch of the lease under which it was written: an older holder cannot write over it.
    pub epoch: u64,
    /// Pushes of the same pairs before, within all epochs: a job that is pushed again gets another jid.
    pub attempt: u32,
}

impl Cursor {
    /// At the beginning.
    pub fn fresh(page_size: u32, roots: Census, scions: Census, epoch: u64) -> Self {
        Self { page_size, roots, scions, rest: Rest::All, pushed: 0, epoch, attempt: 0 }
    }

    /// At the beginning again, over the sets as they are now.
    #[must_use]
    pub fn again(&self, page_size: u32, roots: Census, scions: Census, epoch: u64) -> Self {
        Self { attempt: self.attempt.saturating_add(1), ..Self::fresh(page_size, roots, scions, epoch) }
    }

    /// Where it was, in the hands of the holder of `epoch`. The chunk behind it may have been pushed without being noted.
    #[must_use]
    pub fn resumed(&self, epoch: u64) -> Self {
        Self { epoch, attempt: self.attempt.saturating_add(1), ..*self }
    }

    /// After `jobs` more were acknowledged.
    #[must_use]
    pub fn advanced(&self, jobs: u64, rest: Rest) -> Self {
        Self { pushed: self.pushed.saturating_add(jobs), rest, ..*self }
    }

    /// Are the sets what they were when the pages were first looked at?
    pub fn fits(&self, roots: Census, scions: Census) -> bool {
        (self.roots, self.scions) == (roots, scions)
    }

    /// Jobs of the stencil, if the sets did not change since.
    pub fn total(&self) -> u64 {
        self.roots.pages(self.page_size).saturating_mul(self.scions.pages(self.page_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(count: u64) -> Census {
        Census { count, greatest: (count > 0).then_some(Id([count as u8; 12])) }
    }

    #[test]
    fn a_full_last_page_is_followed_by_none() {
        for (count, size, pages) in
            [(0, 2, 0), (1, 2, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (20_000, 7, 2_858), (3, 0, 3)]
        {
            assert_eq!(census(count).pages(size), pages, "{count} by {size}");
        }
    }

    #[test]
    fn jobs_are_all_pages_with_all_pages() {
        assert_eq!(Cursor::fresh(2, census(5), census(3), 1).total(), 6);
        assert_eq!(Cursor::fresh(2, census(0), census(3), 1).total(), 0);
    }

    #[test]
    fn who_goes_on_keeps_the_place_and_who_begins_again_does_not() {
        let rest = Rest::From { root: Id([1; 12]), scion: Id([2; 12]) };
        let there = Cursor::fresh(2, census(5), census(3), 1).advanced(4, rest);
        let resumed = there.resumed(9);
        assert_eq!((resumed.rest, resumed.pushed, resumed.page_size), (rest, 4, 2));
        assert_eq!((resumed.epoch, resumed.attempt), (9, 1));
        let again = resumed.again(7, census(6), census(3), 10);
        assert_eq!((again.rest, again.pushed, again.page_size, again.attempt), (Rest::All, 0, 7, 2));
        assert!(again.fits(census(6), census(3)) && !again.fits(census(5), census(3)));
        assert!(!again.fits(census(6), census(4)));
    }
}
