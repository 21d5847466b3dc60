//! The body of a child: what a runner starts, polls, drains and drops. One file per kind.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use crate::{Exit, StartCx, Vitals};

pub(crate) mod actor;
pub(crate) mod entry;
pub(crate) mod supervisor;
pub(crate) mod task;
pub(crate) mod thread;

/// What a body is made with, once, on the arbiter it will live on.
pub(crate) struct BodyCx {
    pub(crate) vitals: Arc<Vitals>,
}

/// What became of an incarnation that was to be dropped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// It is gone.
    Done,
    /// A supervisor: its children are being dropped; the exit comes from `poll` when the last one is gone.
    UnderWay,
    /// A thread: it cannot be dropped, `poll` must go on until it ends.
    Impossible,
}

/// A child's life support. Lives as long as the process; incarnations come and go inside.
/// Every call guards the child's own code against panics.
pub(crate) trait Body {
    /// Puts a fresh incarnation in place.
    fn start(&mut self, cx: StartCx) -> Result<(), Exit>;

    /// Drives the incarnation. After `Ready` it is gone.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit>;

    /// Polled while there is no incarnation.
    fn poll_vacant(&mut self, _cx: &mut Context<'_>) {}

    /// Is the incarnation up? Asked after the start and after each poll until it says yes. A thread is up at once;
    /// an actor or task after its first poll, so that what it says until its first wait counts as a failed start.
    fn is_up(&self) -> bool {
        true
    }

    /// Drops the incarnation, whose exit is `exit`.
    fn kill(&mut self, exit: Exit) -> Kill;

    /// Is a paused incarnation polled on? Actors are not; tasks, threads and supervisors close their intake themselves.
    fn runs_while_paused(&self) -> bool {
        true
    }
}
