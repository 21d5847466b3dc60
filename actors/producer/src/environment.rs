//! Clock, stop, pause switch and reports of the producer. Tests replace them.

use std::{collections::BTreeSet, time::Duration};

use orchestrator_observe::LinkFailure;
use orchestrator_producer_rules::{lease::Lease, queue_state::QueueState};

use crate::holder::HolderState;

/// A stop was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Peer of the producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Database.
    Store,
    /// Queue server.
    Queue,
}

/// Progress of a stencil.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Acknowledged jobs.
    pub pushed: u64,
    /// Jobs acknowledged since the last report.
    pub fresh: u64,
    /// All jobs, if known and if the sets do not change.
    pub total: Option<u64>,
}

/// Surroundings of the producer.
pub(crate) trait Environment {
    /// Time of a steady clock.
    fn now_ms(&self) -> u64;

    /// Sleeps for `span`, also during a stop.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()>;

    /// Sleeps for `span`, or returns [`Stopped`] at a stop.
    fn sleep_or_stop(&self, span: Duration) -> impl Future<Output = Result<(), Stopped>>;

    /// Waits until a stop no longer allows to wait for the database. Never by default.
    fn store_overdue(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Waits while an operator has paused pushing.
    fn wait_until_resumed(&self) -> impl Future<Output = Result<(), Stopped>>;

    /// Marks `peer` as unavailable and returns the delay before the next attempt.
    fn report_failure(&self, peer: Peer, failure: LinkFailure) -> Duration;

    /// Marks `peer` as unavailable and sleeps before the next attempt.
    fn back_off(&self, peer: Peer, failure: LinkFailure) -> impl Future<Output = Result<(), Stopped>> {
        async move { self.sleep_or_stop(self.report_failure(peer, failure)).await }
    }

    /// Marks `peer` as available and resets its delay.
    fn report_success(&self, peer: Peer);

    /// Reports the progress of the current stencil.
    fn report_progress(&self, progress: Progress);

    /// Reports a reading of the queue. `queues` are the producer's own.
    fn report_queue(&self, queue_state: &QueueState, queues: &BTreeSet<String>);

    /// Reports the number of completed TCNs that are not delivered to `on_complete`.
    fn report_undelivered(&self, count: u64);

    /// Reports the number of stencils up to `tcn` that are not complete and never pushed, since their
    /// `rootstock_tcn` is 0.
    fn report_left_out(&self, _tcn: i64, _count: u64) {}

    fn holder_state(&self, holder: &str) -> HolderState;

    /// Reports a lease that is waited for, which can end in `left_ms`.
    fn report_foreign_lease(&self, lease: &Lease, left_ms: u64, state: HolderState);

    /// Reports whether pushing is stopped by `high_water`.
    fn set_held(&self, held: bool);
}
