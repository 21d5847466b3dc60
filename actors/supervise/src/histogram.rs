//! Lock-free histogram of durations with fixed buckets, for p50, p95 and p99.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

const BUCKETS: usize = 28;

/// Histogram of durations. Bucket `i` counts durations of at most 2^i microseconds; the last one counts all longer ones, too.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&self, span: Duration) {
        let us = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.buckets[Self::bucket(us)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    fn bucket(us: u64) -> usize {
        let bits = 64 - us.saturating_sub(1).leading_zeros();
        (bits as usize).min(BUCKETS - 1)
    }

    /// Returns for each bucket the upper bound in seconds and the number of durations up to it.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let mut total = 0;
        (0..BUCKETS)
            .map(|i| {
                total += self.buckets[i].load(Relaxed);
                ((1u64 << i) as f64 / 1e6, total)
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

    /// Returns the upper bound, in microseconds, of the bucket with the quantile `q` (0 to 1); 0 while empty.
    pub fn quantile_us(&self, q: f64) -> u64 {
        let count = self.count();
        let rank = ((count as f64) * q).ceil() as u64;
        let mut seen = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Relaxed);
            if seen >= rank && seen > 0 {
                return 1 << i;
            }
        }
        0
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
    fn a_very_long_duration_is_in_the_last_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_secs(1 << 40));
        assert_eq!(histogram.count(), 1);
        assert_eq!(histogram.quantile_us(0.99), 1 << (BUCKETS - 1));
    }
}
