//! Time, patience and people: what surrounds the work, and what tests do without waiting.

use std::time::Duration;

/// The producer is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Who is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The database.
    Store,
    /// The queue's server.
    Queue,
}

/// How far a stencil came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Jobs that are acknowledged.
    pub pushed: u64,
    /// Of these, since the last word.
    pub fresh: u64,
    /// Jobs that there are, if the sets do not change; None: not known.
    pub total: Option<u64>,
}

/// What the producer is driven by.
pub trait Pace {
    /// A steady clock, milliseconds.
    fn now_ms(&self) -> u64;

    /// Waits, also while the producer is asked to stop: what is under way is not dropped.
    fn timer(&self, span: Duration) -> impl Future<Output = ()>;

    /// Waits.
    fn wait(&self, span: Duration) -> impl Future<Output = Result<(), Stopped>>;

    /// Waits while an operator has paused the producer.
    fn go(&self) -> impl Future<Output = Result<(), Stopped>>;

    /// A peer failed, for this reason: shows it as away. Returns the delay before the next try.
    fn missed(&self, peer: Peer, reason: String) -> Duration;

    /// A peer failed, for this reason: waits before the next try.
    fn endure(&self, peer: Peer, reason: String) -> impl Future<Output = Result<(), Stopped>> {
        async move { self.wait(self.missed(peer, reason)).await }
    }

    /// A peer answered.
    fn answered(&self, peer: Peer);

    /// The stencil in hand came so far.
    fn tell(&self, progress: Progress);

    /// Does it wait for the queue to fall to its low mark?
    fn hold(&self, held: bool);
}
