//! How long a turn in the background works before it commits. Longer slices write fewer pages a row, and keep workers waiting.

use std::time::Duration;

/// Shortest and longest slice of ingest, and the first one.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(12);
const FIRST: Duration = Duration::from_millis(5);
/// What a turn of ingest is to take with its commit: slices are cut to that, whatever the disk and the size of the database
/// make of a commit.
const TURN: Duration = Duration::from_millis(15);

/// Slice of deletion: its commit takes two to three times as long again, random pages that they are (measured). With twice
/// the length deleting was no faster.
pub(super) const SLICE_DELETE: Duration = Duration::from_millis(1);

/// The slices of ingest.
#[derive(Debug)]
pub(super) struct Slices {
    next: Duration,
}

impl Default for Slices {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Slices {
    /// The next slice.
    pub(super) fn ingest(&self) -> Duration {
        self.next
    }

    /// The turn of the last slice took `took` with its commit: the next one goes half of the way to what would have been right.
    pub(super) fn ingest_took(&mut self, took: Duration) {
        let right = self.next.mul_f64(TURN.as_secs_f64() / took.max(self.next).as_secs_f64());
        self.next = ((self.next + right) / 2).clamp(SHORTEST, LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_cut_so_that_a_turn_takes_what_it_should() {
        let ms = Duration::from_millis;
        // The commit takes as long as the slice, or four times as long, or as good as nothing.
        for (of_commit, settled) in [(1, TURN / 2), (4, TURN / 5), (0, LONGEST)] {
            let mut slices = Slices::default();
            for _ in 0..50 {
                slices.ingest_took(slices.ingest() * (1 + of_commit));
            }
            assert!(slices.ingest().abs_diff(settled) < ms(1), "{of_commit}: {slices:?}");
        }
        let mut slices = Slices { next: SHORTEST };
        slices.ingest_took(Duration::from_secs(60));
        assert_eq!(slices.ingest(), SHORTEST, "a disk that stands still");
    }
}
