//! The workers of the pool: one for each exchange and range.

use std::fmt;

use super::{Range, RangeSet};
use crate::method::Exchange;

/// The one that owns all queues of an exchange for a range. Written as people know it: `content_a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// Whose methods.
    pub exchange: Exchange,
    /// Whose rows.
    pub range: Range,
}

impl Worker {
    /// How many there are.
    pub const COUNT: usize = Exchange::ALL.len() * Range::COUNT;

    /// The worker at a place in the pool, exchange after exchange. None from [`Self::COUNT`] on.
    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        let exchange = *Exchange::ALL.get(index / Range::COUNT)?;
        Some(Self { exchange, range: Range::ALL[index % Range::COUNT] })
    }

    /// Its place in the pool.
    #[must_use]
    pub fn index(self) -> usize {
        // The variants are declared in the order of the pool.
        self.exchange as usize * Range::COUNT + self.range.index()
    }

    /// All of them, in the order of the pool.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).filter_map(Self::at)
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.exchange.name(), self.range)
    }
}

/// Which workers this process has: sites may split the pool over processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    every: RangeSet,
    own: [Option<RangeSet>; Exchange::ALL.len()],
}

impl Ranges {
    /// The same ranges of every exchange.
    #[must_use]
    pub fn new(every: RangeSet) -> Self {
        Self { every, own: [None; Exchange::ALL.len()] }
    }

    /// Other ranges of one exchange; none of them leaves the exchange out.
    #[must_use]
    pub fn with(mut self, exchange: Exchange, ranges: RangeSet) -> Self {
        self.own[exchange as usize] = Some(ranges);
        self
    }

    /// The ranges of an exchange.
    #[must_use]
    pub fn of(&self, exchange: Exchange) -> RangeSet {
        self.own[exchange as usize].unwrap_or(self.every)
    }

    /// The workers, in the order of the pool.
    pub fn workers(self) -> impl Iterator<Item = Worker> {
        Worker::all().filter(move |worker| self.of(worker.exchange).contains(worker.range))
    }
}

impl Default for Ranges {
    /// All of them.
    fn default() -> Self {
        Self::new(RangeSet::ALL)
    }
}
