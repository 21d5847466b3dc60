//! Times since 1970 that stay right when the system's clock jumps: they are kept as times of a steady clock
//! and converted when they are read.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

/// Difference between both clocks up to which they agree, milliseconds.
const DRIFT_MAX_MS: i64 = 1_000;
/// Difference from which it is reported as a jump, milliseconds.
const JUMP_MIN_MS: i64 = 60_000;

/// Jump of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockJump {
    /// Milliseconds by which the clock went forward, or back if negative.
    pub by_ms: i64,
    /// Time since the jump was noticed.
    pub age: Duration,
}

/// Both clocks of the process.
#[derive(Debug)]
struct Clock {
    start: Instant,
    /// Time since 1970 at the zero of the steady clock, milliseconds.
    offset_ms: AtomicI64,
    /// Last jump, and the time of its notice.
    jump: Mutex<Option<(i64, Instant)>>,
}

impl Clock {
    fn get() -> &'static Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        CLOCK.get_or_init(|| Self::new(system_ms()))
    }

    fn new(system_ms: i64) -> Self {
        // The steady clock begins at 1, since 0 stands for no time.
        Self { start: Instant::now(), offset_ms: AtomicI64::new(system_ms - 1), jump: Mutex::new(None) }
    }

    fn steady_ms(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX - 1) + 1
    }

    /// Compares the clocks. Returns the difference if it is a jump.
    fn compare(&self, system_ms: i64, steady_ms: i64) -> Option<i64> {
        let offset_ms = system_ms - steady_ms;
        let drift_ms = offset_ms - self.offset_ms.load(Relaxed);
        if drift_ms.abs() <= DRIFT_MAX_MS {
            return None;
        }
        self.offset_ms.store(offset_ms, Relaxed);
        (drift_ms.abs() >= JUMP_MIN_MS).then_some(drift_ms)
    }
}

fn system_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Wall clock time, milliseconds since 1970. Notices a jump of the system's clock.
pub fn now_ms() -> u64 {
    let (clock, system_ms) = (Clock::get(), system_ms());
    if let Some(by_ms) = clock.compare(system_ms, clock.steady_ms()) {
        *clock.jump.lock() = Some((by_ms, Instant::now()));
        tracing::warn!(seconds = by_ms / 1_000, "the system clock jumped");
    }
    system_ms.unsigned_abs()
}

/// Last jump of the system's clock by a minute or more; None if there was none.
pub fn clock_jump() -> Option<ClockJump> {
    let (by_ms, noticed) = (*Clock::get().jump.lock())?;
    Some(ClockJump { by_ms, age: noticed.elapsed() })
}

/// Time of the steady clock, milliseconds; never 0.
pub fn steady_ms() -> u64 {
    Clock::get().steady_ms().unsigned_abs()
}

/// Converts a time of the steady clock to milliseconds since 1970, by the present system's clock. 0 stays 0.
pub fn wall_ms(steady_ms: u64) -> u64 {
    if steady_ms == 0 {
        return 0;
    }
    let offset_ms = Clock::get().offset_ms.load(Relaxed);
    steady_ms.saturating_add_signed(offset_ms)
}

/// Whole milliseconds of a duration.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_moves_earlier_times_and_a_drift_does_not() {
        const HOUR: i64 = 3_600_000;
        let clock = Clock::new(10 * HOUR);
        let offset = || clock.offset_ms.load(Relaxed);
        assert_eq!(clock.compare(10 * HOUR + 5_000, 5_001), None);
        assert_eq!(clock.compare(10 * HOUR + 5_900, 5_001), None, "a drift");
        assert_eq!(offset(), 10 * HOUR - 1);
        assert_eq!(clock.compare(11 * HOUR + 6_000, 6_001), Some(HOUR));
        assert_eq!(offset(), 11 * HOUR - 1);
        assert_eq!(clock.compare(10 * HOUR + 7_000, 7_001), Some(-HOUR));
        assert_eq!(clock.compare(10 * HOUR + 18_000, 8_001), None, "a correction of some seconds");
        assert_eq!(offset(), 10 * HOUR + 9_999);
        assert_eq!((wall_ms(0), wall_ms(steady_ms()).abs_diff(now_ms()) < 1_000), (0, true));
    }
}
