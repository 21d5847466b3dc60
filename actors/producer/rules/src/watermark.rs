//! Flow control by the queue's length, since Faktory keeps jobs in memory and a TCN can have billions.

/// Queue lengths at which pushing stops and resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaterMarks {
    /// Upper bound of the waiting jobs; 0 for none, as in the original.
    pub high: u64,
    /// Length at which pushing resumes.
    pub low: u64,
}

/// Decision about the next chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Push it.
    Push,
    /// Read the queue length first: the known upper bound leaves no room.
    ReadLength,
    /// Wait, then read the queue length.
    Wait,
}

/// Upper bound of the queue length: the last length read, plus the jobs pushed since.
#[derive(Debug, Clone)]
pub struct QueueLevel {
    marks: WaterMarks,
    upper_bound: Option<u64>,
    stopped: bool,
}

impl QueueLevel {
    /// The length is not known yet.
    pub fn new(marks: WaterMarks) -> Self {
        Self { marks, upper_bound: None, stopped: false }
    }

    /// Records a length that was read.
    pub fn read(&mut self, length: u64) {
        self.upper_bound = Some(length);
        self.stopped = if self.stopped { length > self.marks.low } else { self.over(length) };
    }

    /// Records pushed jobs.
    pub fn pushed(&mut self, jobs: u64) {
        self.upper_bound = self.upper_bound.map(|upper_bound| upper_bound.saturating_add(jobs));
    }

    /// Decides about a chunk of `jobs`.
    pub fn admit(&self, jobs: u64) -> Admission {
        match self.upper_bound {
            _ if self.marks.high == 0 => Admission::Push,
            _ if self.stopped => Admission::Wait,
            Some(upper_bound) if !self.over(upper_bound.saturating_add(jobs)) => Admission::Push,
            // An empty queue takes a chunk of any size; otherwise a large chunk would never be pushed.
            Some(0) => Admission::Push,
            Some(_) | None => Admission::ReadLength,
        }
    }

    /// Stops pushing until the low mark, since the length that was read leaves no room.
    pub fn hold(&mut self) {
        self.stopped =
            self.marks.high > 0 && self.upper_bound.is_some_and(|upper_bound| upper_bound > self.marks.low);
    }

    fn over(&self, length: u64) -> bool {
        self.marks.high > 0 && length > self.marks.high
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn level(high: u64, low: u64) -> QueueLevel {
        QueueLevel::new(WaterMarks { high, low })
    }

    /// Flaw 14: the original pushes all jobs at once.
    #[test]
    fn flaw_14_without_a_mark_there_is_no_bound() {
        let mut level = level(0, 0);
        level.read(u64::MAX);
        assert_eq!(level.admit(1_000), Admission::Push);
    }

    #[test]
    fn pushing_stops_above_the_high_mark_and_resumes_at_the_low_mark() {
        let mut level = level(10, 4);
        assert_eq!(level.admit(1), Admission::ReadLength, "nothing is known yet");
        level.read(5);
        assert_eq!((level.admit(5), level.admit(6)), (Admission::Push, Admission::ReadLength));
        level.pushed(5);
        assert_eq!(level.admit(1), Admission::ReadLength, "workers may have taken some");
        level.read(10);
        level.hold();
        assert_eq!(level.admit(1), Admission::Wait);
        level.read(5);
        assert_eq!(level.admit(1), Admission::Wait, "above the low mark");
        level.read(4);
        assert_eq!(level.admit(1), Admission::Push);
        level.read(11);
        assert_eq!(level.admit(1), Admission::Wait, "others push, too");
    }

    #[test]
    fn an_empty_queue_takes_a_chunk_larger_than_the_mark() {
        let mut level = level(10, 4);
        level.read(0);
        assert_eq!(level.admit(1_000), Admission::Push);
        level.read(1);
        level.hold();
        assert_eq!((level.admit(1_000), level.admit(9)), (Admission::ReadLength, Admission::Push));
    }

    proptest! {
        /// The queue never grows beyond the high mark, except by one chunk into an empty queue.
        #[test]
        fn the_queue_never_exceeds_the_high_mark(
            high in 1_u64..50, share in 0_u64..=100, chunk in 1_u64..60, taken in prop::collection::vec(0_u64..20, 1..200),
        ) {
            let low = high * share / 100;
            let (mut level, mut length, mut pushed) = (level(high, low), 0_u64, 0_u64);
            for taken in taken {
                match level.admit(chunk) {
                    Admission::Push => {
                        length += chunk;
                        pushed += chunk;
                        level.pushed(chunk);
                        prop_assert!(length <= high.max(chunk), "{length} jobs");
                    }
                    Admission::ReadLength => {
                        level.read(length);
                        if level.admit(chunk) != Admission::Push {
                            level.hold();
                        }
                    }
                    Admission::Wait => level.read(length),
                }
                length = length.saturating_sub(taken);
            }
            // An empty queue resumes pushing.
            for _ in 0..3 {
                if level.admit(chunk) == Admission::Push {
                    return Ok(());
                }
                level.read(0);
            }
            prop_assert!(false, "stuck after {pushed} jobs");
        }
    }
}
