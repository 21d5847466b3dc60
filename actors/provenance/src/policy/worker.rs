//! Workers of the pool: one for each exchange and range.

use std::fmt;

use super::{Range, RangeSet};
use crate::method::Exchange;

/// Worker of an exchange and a range, displayed as `content_a`. It consumes all queues of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// Exchange of its methods.
    pub exchange: Exchange,
    /// Range of its rows.
    pub range: Range,
}

impl Worker {
    /// Number of workers, 80.
    pub const COUNT: usize = Exchange::ALL.len() * Range::COUNT;

    /// Returns the worker at a position in the pool, exchange by exchange; None from
    /// [`Self::COUNT`] on.
    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        let exchange = *Exchange::ALL.get(index / Range::COUNT)?;
        Some(Self { exchange, range: Range::ALL[index % Range::COUNT] })
    }

    /// Returns its position in the pool.
    #[must_use]
    pub fn index(self) -> usize {
        // The variants are declared in the order of the pool.
        self.exchange as usize * Range::COUNT + self.range.index()
    }

    /// Iterates over all workers, in the order of the pool.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).filter_map(Self::at)
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.exchange.name(), self.range)
    }
}

/// Workers of one process; several processes can share the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    all: RangeSet,
    overrides: [Option<RangeSet>; Exchange::ALL.len()],
}

impl Ranges {
    /// Returns the same ranges for every exchange.
    #[must_use]
    pub fn new(all: RangeSet) -> Self {
        Self { all, overrides: [None; Exchange::ALL.len()] }
    }

    /// Sets other ranges for one exchange; the empty set excludes it.
    #[must_use]
    pub fn with(mut self, exchange: Exchange, ranges: RangeSet) -> Self {
        self.overrides[exchange as usize] = Some(ranges);
        self
    }

    /// Returns the ranges of an exchange.
    #[must_use]
    pub fn of(&self, exchange: Exchange) -> RangeSet {
        self.overrides[exchange as usize].unwrap_or(self.all)
    }

    /// Iterates over the workers, in the order of the pool.
    pub fn workers(self) -> impl Iterator<Item = Worker> {
        Worker::all().filter(move |worker| self.of(worker.exchange).contains(worker.range))
    }
}

impl Default for Ranges {
    /// All ranges of every exchange.
    fn default() -> Self {
        Self::new(RangeSet::ALL)
    }
}
