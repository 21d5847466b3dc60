//! Claims whose write had an unknown outcome.

use std::rc::Rc;

use tokio::time::Instant;

use super::poll_request::Target;
use crate::state_change::Planned;

/// A claim whose write had an unknown outcome.
#[derive(Debug)]
pub(super) struct UnconfirmedClaim {
    pub(super) token: Rc<str>,
    pub(super) plan: Vec<Planned>,
    pub(super) target: Target,
    /// Time of the request; the lease begins here.
    pub(super) started: Instant,
    /// Time of the next read.
    pub(super) next: Instant,
    pub(super) attempts: u32,
}

impl UnconfirmedClaim {
    pub(super) fn new(
        token: Rc<str>,
        plan: Vec<Planned>,
        started: Instant,
        target: Target,
        now: Instant,
    ) -> Self {
        Self { token, plan, target, started, next: now, attempts: 0 }
    }
}
