//! Water marks on the queue's length: the queue's server keeps jobs in memory, and a TCN can have billions.

/// When pushing stops, and when it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaterMarks {
    /// Nothing is pushed beyond so many jobs that wait; 0: no bound, as the original.
    pub high: u64,
    /// Once it stopped, it goes on at so many.
    pub low: u64,
}

/// What to do before the next chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Push.
    Open,
    /// Read the queue's length first: by what is known it could be too long.
    Ask,
    /// Wait a while, then read the length.
    Wait,
}

/// The length as far as it is known: read at times, and grown by what was pushed since. Workers only make it shorter.
#[derive(Debug, Clone)]
pub struct Level {
    marks: WaterMarks,
    most: Option<u64>,
    stopped: bool,
}

impl Level {
    /// Nothing is known yet.
    pub fn new(marks: WaterMarks) -> Self {
        Self { marks, most: None, stopped: false }
    }

    /// The length was read.
    pub fn read(&mut self, length: u64) {
        self.most = Some(length);
        self.stopped = if self.stopped { length > self.marks.low } else { self.over(length) };
    }

    /// So many were pushed.
    pub fn pushed(&mut self, jobs: u64) {
        self.most = self.most.map(|most| most.saturating_add(jobs));
    }

    /// May `jobs` more be pushed?
    pub fn gate(&self, jobs: u64) -> Gate {
        match self.most {
            _ if self.marks.high == 0 => Gate::Open,
            _ if self.stopped => Gate::Wait,
            Some(most) if !self.over(most.saturating_add(jobs)) => Gate::Open,
            // An empty queue takes a chunk of any size, or it would never begin.
            Some(0) => Gate::Open,
            Some(_) | None => Gate::Ask,
        }
    }

    /// Is it waiting for the queue to fall to the low mark?
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// The length that was read leaves no room for `jobs`: nothing more until it has fallen to the low mark.
    pub fn full(&mut self) {
        self.stopped = self.marks.high > 0 && self.most.is_some_and(|most| most > self.marks.low);
    }

    fn over(&self, length: u64) -> bool {
        self.marks.high > 0 && length > self.marks.high
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn level(high: u64, low: u64) -> Level {
        Level::new(WaterMarks { high, low })
    }

    /// Flaw 14: the original pushes all there is at once.
    #[test]
    fn flaw_14_without_a_mark_all_goes_out() {
        let mut level = level(0, 0);
        level.read(u64::MAX);
        assert_eq!((level.gate(1_000), level.stopped()), (Gate::Open, false));
    }

    #[test]
    fn it_stops_above_the_high_mark_and_goes_on_at_the_low_one() {
        let mut level = level(10, 4);
        assert_eq!(level.gate(1), Gate::Ask, "nothing is known yet");
        level.read(5);
        assert_eq!((level.gate(5), level.gate(6)), (Gate::Open, Gate::Ask));
        level.pushed(5);
        assert_eq!(level.gate(1), Gate::Ask, "workers may have taken some");
        level.read(10);
        level.full();
        assert_eq!(level.gate(1), Gate::Wait);
        level.read(5);
        assert_eq!(level.gate(1), Gate::Wait, "above the low mark");
        level.read(4);
        assert_eq!(level.gate(1), Gate::Open);
        level.read(11);
        assert_eq!(level.gate(1), Gate::Wait, "others push, too");
    }

    #[test]
    fn a_chunk_larger_than_the_mark_goes_into_an_empty_queue() {
        let mut level = level(10, 4);
        level.read(0);
        assert_eq!(level.gate(1_000), Gate::Open);
        level.read(1);
        level.full();
        assert_eq!((level.gate(1_000), level.gate(9)), (Gate::Ask, Gate::Open));
    }

    proptest! {
        /// Whatever workers take, what waits never exceeds the high mark, unless one chunk into an empty queue does.
        #[test]
        fn the_queue_never_grows_beyond_the_mark(
            high in 1_u64..50, share in 0_u64..=100, chunk in 1_u64..60, taken in prop::collection::vec(0_u64..20, 1..200),
        ) {
            let low = high * share / 100;
            let (mut level, mut length, mut pushed) = (level(high, low), 0_u64, 0_u64);
            for taken in taken {
                match level.gate(chunk) {
                    Gate::Open => {
                        length += chunk;
                        pushed += chunk;
                        level.pushed(chunk);
                        prop_assert!(length <= high.max(chunk), "{length} jobs");
                    }
                    Gate::Ask => {
                        level.read(length);
                        if level.gate(chunk) != Gate::Open {
                            level.full();
                        }
                    }
                    Gate::Wait => level.read(length),
                }
                length = length.saturating_sub(taken);
            }
            // Once all is taken it goes on.
            for _ in 0..3 {
                if level.gate(chunk) == Gate::Open {
                    return Ok(());
                }
                level.read(0);
            }
            prop_assert!(false, "stuck after {pushed} jobs");
        }
    }
}
