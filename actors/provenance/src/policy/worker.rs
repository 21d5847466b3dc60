//! Workers of the pool: one for each exchange and range.

use std::fmt;

use super::{Range, methods};
use crate::method::{Exchange, Method};

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

    /// Counts exchange by exchange; None from [`Self::COUNT`] on.
    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        let exchange = *Exchange::ALL.get(index / Range::COUNT)?;
        Some(Self { exchange, range: Range::ALL[index % Range::COUNT] })
    }

    /// Position in the pool.
    #[must_use]
    pub fn index(self) -> usize {
        // The variants are declared in the order of the pool.
        self.exchange as usize * Range::COUNT + self.range.index()
    }

    /// Iterates over its queues: the methods of its exchange, each with its range.
    pub fn queues(self) -> impl Iterator<Item = (Method, Range)> {
        methods(self.exchange).iter().map(move |&method| (method, self.range))
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
