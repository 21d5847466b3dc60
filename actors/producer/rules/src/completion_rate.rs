//! Rate at which workers complete jobs, from the server's counter of processed jobs. It includes jobs of
//! other types.

use std::collections::VecDeque;

/// Interval over which the rate is measured, in milliseconds. Jobs can take minutes.
const WINDOW_MS: u64 = 900_000;
/// Least interval between two samples, in milliseconds.
const SPACING_MS: u64 = 5_000;

/// Value of the counter at a time of a steady clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    ms: u64,
    processed: u64,
}

/// Samples of the counter over the last 15 min.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompletionRate {
    samples: VecDeque<Sample>,
}

impl CompletionRate {
    /// Records the counter. Without `outstanding` jobs the measurement starts again, since idle workers say
    /// nothing about the rate.
    pub fn read(&mut self, ms: u64, processed: u64, outstanding: u64) {
        let went_back = |last: &Sample| ms < last.ms || processed < last.processed;
        if outstanding == 0 || self.samples.back().is_some_and(went_back) {
            self.samples.clear();
        }
        let before_last = self.samples.len().checked_sub(2).and_then(|at| self.samples.get(at));
        if before_last.zip(self.samples.back()).is_some_and(|(before, last)| last.ms - before.ms < SPACING_MS)
        {
            self.samples.pop_back();
        }
        self.samples.push_back(Sample { ms, processed });
        // The oldest sample that stays is at least as old as the window.
        while self.samples.get(1).is_some_and(|second| ms - second.ms >= WINDOW_MS) {
            self.samples.pop_front();
        }
    }

    /// `None` before the first completed job.
    pub fn per_hour(&self) -> Option<u64> {
        let (done, elapsed_ms) = self.measured()?;
        u64::try_from(u128::from(done) * 3_600_000 / u128::from(elapsed_ms)).ok()
    }

    /// In seconds; `None` before the first completed job.
    pub fn secs_for(&self, jobs: u64) -> Option<u64> {
        let (done, elapsed_ms) = self.measured()?;
        u64::try_from((u128::from(jobs) * u128::from(elapsed_ms)).div_ceil(u128::from(done) * 1_000)).ok()
    }

    /// Completed jobs and their time, both above 0.
    fn measured(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let (done, elapsed_ms) = (last.processed - first.processed, last.ms - first.ms);
        (done > 0 && elapsed_ms > 0).then_some((done, elapsed_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_quarter_of_an_hour() {
        let mut rate = CompletionRate::default();
        assert_eq!((rate.per_hour(), rate.secs_for(1)), (None, None));
        // 1 job a second for an hour, then 4 a second.
        for second in (0..3_600).step_by(3) {
            rate.read(second * 1_000, second, 9);
        }
        assert_eq!((rate.per_hour(), rate.secs_for(100)), (Some(3_600), Some(100)));
        for second in (3_600..7_200).step_by(3) {
            rate.read(second * 1_000, 3_600 + (second - 3_600) * 4, 9);
        }
        assert_eq!((rate.per_hour(), rate.secs_for(100)), (Some(14_400), Some(25)));
        assert!(rate.samples.len() <= (WINDOW_MS / SPACING_MS + 3) as usize, "{}", rate.samples.len());
    }

    #[test]
    fn slow_jobs_have_a_rate() {
        let mut rate = CompletionRate::default();
        for (ms, processed) in [(0, 70), (3_000, 70), (300_000, 70), (600_000, 71)] {
            rate.read(ms, processed, 5);
        }
        assert_eq!((rate.per_hour(), rate.secs_for(5)), (Some(6), Some(3_000)));
    }

    #[test]
    fn it_starts_again_when_idle_or_after_a_reset() {
        let fresh = || {
            let mut rate = CompletionRate::default();
            rate.read(1_000, 10, 5);
            rate.read(9_000, 20, 5);
            assert!(rate.per_hour().is_some());
            rate
        };
        for (ms, processed, outstanding) in [(10_000, 30, 0), (500, 30, 5), (10_000, 3, 5)] {
            let mut rate = fresh();
            rate.read(ms, processed, outstanding);
            assert_eq!(rate.per_hour(), None, "{ms} {processed} {outstanding}");
        }
    }
}
