//! Seeded random choices.

use crate::rounds;

/// Random number generator (splitmix64): the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct SeededRng(u64);

impl SeededRng {
    /// SeededRng for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x6A09_E667_F3BC_C909)
    }

    /// A generator of its own for a thread; the parent's choices stay the same however many that one makes.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// If `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Runs `test` for the seeds 1, 2, .. (as many as `variable` says, or `default`), or only for
/// `ORCHESTRATOR_SEED`. A failing seed is printed.
pub fn for_each_seed(variable: &str, default: u64, mut test: impl FnMut(u64)) {
    let only = std::env::var("ORCHESTRATOR_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = only.map_or(1..=rounds(variable, default), |seed: u64| seed..=seed);
    for seed in seeds {
        let shown = ShownOnPanic(seed);
        test(seed);
        drop(shown);
    }
}

struct ShownOnPanic(u64);

impl Drop for ShownOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {0}: run it again with ORCHESTRATOR_SEED={0}", self.0);
        }
    }
}
