//! Duration of background slices. Longer slices write fewer pages per row and delay workers more.

use std::time::Duration;

/// Bounds of an ingest slice, and its initial duration.
const SLICE_MIN: Duration = Duration::from_millis(2);
const SLICE_MAX: Duration = Duration::from_millis(12);
const SLICE_INITIAL: Duration = Duration::from_millis(5);
/// Target duration of an ingest turn with its commit. Slices are adapted to it, since commits
/// depend on disk and database size.
const TURN_TARGET: Duration = Duration::from_millis(15);

/// Duration of a deletion slice. Its commit takes two to three times as long again. Slices of twice
/// the duration did not delete faster (measured).
pub(super) const DELETION_SLICE: Duration = Duration::from_millis(1);

/// Adaptive duration of ingest slices.
#[derive(Debug)]
pub(super) struct Slices {
    next: Duration,
}

impl Default for Slices {
    fn default() -> Self {
        Self { next: SLICE_INITIAL }
    }
}

impl Slices {
    /// Returns the duration of the next slice.
    pub(super) fn ingest(&self) -> Duration {
        self.next
    }

    /// Adapts the next slice to the duration of the last turn with its commit, by half of the
    /// difference to the target.
    pub(super) fn ingest_took(&mut self, took: Duration) {
        let right = self.next.mul_f64(TURN_TARGET.as_secs_f64() / took.max(self.next).as_secs_f64());
        self.next = ((self.next + right) / 2).clamp(SLICE_MIN, SLICE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_adapt_to_the_target_duration() {
        let ms = Duration::from_millis;
        // The commit takes as long as the slice, or four times as long, or as good as nothing.
        for (of_commit, settled) in [(1, TURN_TARGET / 2), (4, TURN_TARGET / 5), (0, SLICE_MAX)] {
            let mut slices = Slices::default();
            for _ in 0..50 {
                slices.ingest_took(slices.ingest() * (1 + of_commit));
            }
            assert!(slices.ingest().abs_diff(settled) < ms(1), "{of_commit}: {slices:?}");
        }
        let mut slices = Slices { next: SLICE_MIN };
        slices.ingest_took(Duration::from_secs(60));
        assert_eq!(slices.ingest(), SLICE_MIN, "a disk that stands still");
    }
}
