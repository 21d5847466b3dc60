//! Lock-free histogram of durations with fixed buckets, for p50, p95 and p99.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

const BUCKETS: usize = 28;

/// Histogram of durations. Bucket `i` counts durations of at most 2^i times its resolution, one microsecond
/// by default; the last one counts all longer ones, too.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
    resolution_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::with_resolution(Duration::from_micros(1))
    }
}

impl Histogram {
    /// Creates a histogram whose first bucket ends at `resolution`, at least a microsecond. With a
    /// millisecond the last bucket ends after 37 hours, with a microsecond after 134 seconds.
    pub fn with_resolution(resolution: Duration) -> Self {
        let resolution_us = u64::try_from(resolution.as_micros()).unwrap_or(u64::MAX).max(1);
        Self { buckets: Default::default(), sum_us: AtomicU64::new(0), resolution_us }
    }

    /// Sum of histograms of one resolution; None of none.
    pub fn sum_of<'a>(all: impl IntoIterator<Item = &'a Histogram>) -> Option<Histogram> {
        let mut all = all.into_iter().peekable();
        let resolution_us = all.peek()?.resolution_us;
        let sum = Self { buckets: Default::default(), sum_us: AtomicU64::new(0), resolution_us };
        for one in all {
            debug_assert_eq!(one.resolution_us, resolution_us, "one name has one resolution");
            for (total, part) in sum.buckets.iter().zip(&one.buckets) {
                total.fetch_add(part.load(Relaxed), Relaxed);
            }
            sum.sum_us.fetch_add(one.sum_us.load(Relaxed), Relaxed);
        }
        Some(sum)
    }

    /// Adds one duration.
    pub fn record(&self, span: Duration) {
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.buckets[Self::bucket(us.div_ceil(self.resolution_us))].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// `units` counts units of the resolution.
    fn bucket(units: u64) -> usize {
        let bits = 64 - units.saturating_sub(1).leading_zeros();
        (bits as usize).min(BUCKETS - 1)
    }

    /// Upper bound of each bucket, in seconds, and the number of durations up to it.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let mut total = 0;
        (0..BUCKETS)
            .map(|i| {
                total += self.buckets[i].load(Relaxed);
                (self.bound_us(i) as f64 / 1e6, total)
            })
            .collect()
    }

    /// Number of durations recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Sum of all durations, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_us.load(Relaxed) as f64 / 1e6
    }

    /// Upper bound, in microseconds, of the bucket with the quantile `q` (0 to 1); 0 while empty.
    pub fn quantile_us(&self, q: f64) -> u64 {
        let count = self.count();
        let rank = ((count as f64) * q).ceil() as u64;
        let mut seen = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Relaxed);
            if seen >= rank && seen > 0 {
                return self.bound_us(i);
            }
        }
        0
    }

    /// Upper bounds of p50, p95 and p99, in microseconds.
    pub fn quantiles_us(&self) -> [u64; 3] {
        [0.5, 0.95, 0.99].map(|q| self.quantile_us(q))
    }

    fn bound_us(&self, bucket: usize) -> u64 {
        self.resolution_us.saturating_mul(1 << bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), 0);
        for us in [0, 1, 2, 3, 900, 1024, 1025] {
            histogram.record(Duration::from_micros(us));
        }
        assert_eq!(histogram.quantile_us(0.25), 1);
        assert_eq!(histogram.quantile_us(0.5), 4);
        assert_eq!(histogram.quantile_us(0.8), 1024);
        assert_eq!(histogram.quantile_us(1.0), 2048);
    }

    #[test]
    fn a_coarse_histogram_measures_hours() {
        let histogram = Histogram::with_resolution(Duration::from_millis(1));
        for seconds in [0, 60, 3_600, 7_200] {
            histogram.record(Duration::from_secs(seconds));
        }
        assert_eq!(
            [0.25, 0.5, 0.75, 1.0].map(|q| histogram.quantile_us(q) / 1_000),
            [1, 65_536, 4_194_304, 8_388_608]
        );
        assert_eq!(histogram.cumulative()[16], (65.536, 2));
        assert_eq!(histogram.sum_seconds(), 10_860.0);
    }

    #[test]
    fn a_sum_counts_the_durations_of_all() {
        let all = [1, 3, 900].map(|us| {
            let histogram = Histogram::default();
            histogram.record(Duration::from_micros(us));
            histogram
        });
        let sum = Histogram::sum_of(&all).unwrap();
        assert_eq!((sum.count(), sum.sum_seconds()), (3, 0.000_904));
        assert_eq!([0.3, 0.6, 1.0].map(|q| sum.quantile_us(q)), [1, 4, 1024]);
        assert!(Histogram::sum_of(&all[..0]).is_none());
    }

    #[test]
    fn a_very_long_duration_is_in_the_last_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_secs(1 << 40));
        assert_eq!(histogram.count(), 1);
        assert_eq!(histogram.quantile_us(0.99), 1 << (BUCKETS - 1));
    }
}
