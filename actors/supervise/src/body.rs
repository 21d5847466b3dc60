//! Body of a child: starts, drives and drops its incarnations. One file per kind.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use orchestrator_observe::Exit;
use tokio::time::Instant;

use crate::{StartCx, child_state::ChildState};

pub(crate) mod actor;
pub(crate) mod entry;
pub(crate) mod supervisor;
pub(crate) mod task;
pub(crate) mod thread;

/// Arguments of a body's constructor, which runs once, on the body's arbiter.
pub(crate) struct BodyCx {
    pub(crate) child: Arc<ChildState>,
}

/// Result of dropping an incarnation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// The incarnation is dropped.
    Done,
    /// A supervisor drops its children; `poll` returns the exit once the last one has ended.
    UnderWay,
    /// A thread cannot be dropped; `poll` must be called until it ends.
    Impossible,
}

/// Holder of a child's incarnations, as long as the process runs. Every method catches panics of the child's
/// own code.
pub(crate) trait Body {
    fn start(&mut self, cx: StartCx) -> Result<(), Exit>;

    /// Drives the incarnation. After `Ready` it is dropped.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit>;

    /// Polled while there is no incarnation.
    fn poll_idle(&mut self, _cx: &mut Context<'_>) {}

    /// Called after the start and after each poll until it is true. A thread is up at once. An actor or task
    /// is up after its first poll, so that an error before its first wait is a failed start.
    fn is_up(&self) -> bool {
        true
    }

    /// Sets the time by which a stopping supervisor's children are down; called before the stop. Others have
    /// a deadline of their own.
    fn set_deadline(&mut self, _deadline: Option<Instant>) {}

    /// Drops the incarnation, whose exit is `exit`.
    fn kill(&mut self, exit: Exit) -> Kill;

    /// True if a paused incarnation is still polled. Actors are not; tasks and threads stop receiving by
    /// themselves.
    fn runs_while_paused(&self) -> bool {
        true
    }
}
