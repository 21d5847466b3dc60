//! Duration of background slices. Longer slices write fewer pages per row and delay workers more.

use std::time::Duration;

/// Adaptive duration of slices of one kind.
#[derive(Debug)]
pub(super) struct Slices {
    next: Duration,
    min: Duration,
    max: Duration,
    /// Target duration of a turn with its commit. Slices are adapted to it, since commits depend on disk
    /// and database size.
    turn: Duration,
}

impl Slices {
    /// Slices of ingest, whose commits wait for the disk.
    pub(super) fn ingest() -> Self {
        let [min, next, max, turn] = [2, 5, 12, 15].map(Duration::from_millis);
        Self { next, min, max, turn }
    }

    /// Slices of deletion, whose commits do not: the next commit of a request waits for their pages, too.
    pub(super) fn deletion() -> Self {
        let [min, next, max, turn] = [1, 2, 8, 15].map(Duration::from_millis);
        Self { next, min, max, turn }
    }

    pub(super) fn next(&self) -> Duration {
        self.next
    }

    /// Adapts the next slice to the duration of the last turn with its commit, by half of the
    /// difference to the target.
    pub(super) fn took(&mut self, took: Duration) {
        let right = self.next.mul_f64(self.turn.as_secs_f64() / took.max(self.next).as_secs_f64());
        self.next = ((self.next + right) / 2).clamp(self.min, self.max);
    }
}

/// A slice that requests wait for ends after three fifths of its duration.
pub(super) fn may_continue(elapsed: Duration, slice: Duration, has_new_requests: bool) -> bool {
    elapsed < if has_new_requests { slice * 3 / 5 } else { slice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_adapt_to_the_target_duration() {
        let ms = Duration::from_millis;
        for new in [Slices::ingest, Slices::deletion] {
            let Slices { min, max, turn, .. } = new();
            // The commit takes as long as the slice, or four times as long, or as good as nothing.
            for (of_commit, settled) in [(1, turn / 2), (4, turn / 5), (0, max)] {
                let mut slices = new();
                for _ in 0..50 {
                    slices.took(slices.next() * (1 + of_commit));
                }
                assert!(slices.next().abs_diff(settled) < ms(1), "{of_commit}: {slices:?}");
            }
            let mut slices = Slices { next: min, ..new() };
            slices.took(Duration::from_secs(60));
            assert_eq!(slices.next(), min, "a disk that stands still");
        }
    }

    #[test]
    fn a_request_ends_a_slice_of_deletion_after_three_fifths() {
        let ms = Duration::from_millis;
        for (elapsed, has_new_requests, expected) in
            [(5, true, true), (6, true, false), (9, false, true), (10, false, false)]
        {
            assert_eq!(
                may_continue(ms(elapsed), ms(10), has_new_requests),
                expected,
                "{elapsed} {has_new_requests}"
            );
        }
    }
}
