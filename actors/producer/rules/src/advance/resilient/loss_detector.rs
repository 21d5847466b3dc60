//! Detection of lost jobs: Faktory has processed fewer jobs than were pushed (CONTRACT SO11).

/// Jobs pushed, and the server's counter of processed jobs, since a base value of that counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LossDetector {
    base: Option<u64>,
    latest: u64,
    pushed: u64,
}

impl LossDetector {
    /// Records the server's counter of processed jobs, of any type.
    pub(super) fn read(&mut self, processed: u64) {
        self.base.get_or_insert(processed);
        self.latest = processed;
    }

    /// Records acknowledged jobs.
    pub(super) fn pushed(&mut self, jobs: u64) {
        self.pushed = self.pushed.saturating_add(jobs);
    }

    /// Pushed and processed jobs if fewer were processed. Other jobs count as well, so a loss can be missed,
    /// but none is reported in error. Call it only while all jobs are done.
    pub(super) fn lost(&self) -> Option<(u64, u64)> {
        let base = self.base?;
        let done = self.latest.saturating_sub(base);
        (self.latest < base || done < self.pushed).then_some((self.pushed, done))
    }

    /// Counts from the last value on, since lost jobs are pushed again.
    pub(super) fn restart(&mut self) {
        *self = Self { base: Some(self.latest), latest: self.latest, pushed: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_jobs_processed_than_pushed_are_a_loss() {
        let mut detector = LossDetector::default();
        detector.pushed(3);
        assert_eq!(detector.lost(), None, "nothing was read");
        detector.read(10);
        detector.pushed(2);
        for (processed, lost) in
            [(15, None), (19, None), (14, Some((5, 4))), (10, Some((5, 0))), (3, Some((5, 0)))]
        {
            detector.read(processed);
            assert_eq!(detector.lost(), lost, "{processed}");
        }
        detector.restart();
        assert_eq!(detector.lost(), None);
        detector.read(2);
        assert_eq!(detector.lost(), Some((0, 0)), "the counter went back");
    }
}
