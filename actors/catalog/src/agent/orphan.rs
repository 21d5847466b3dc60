//! Claims of which it is not known whether they were written.

use std::rc::Rc;

use tokio::time::Instant;

use super::order::Target;
use crate::state_change::Planned;

/// A claim of which it is not known whether it was written.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) token: Rc<str>,
    pub(super) plan: Vec<Planned>,
    pub(super) target: Target,
    /// When it was asked for: its lease begins then.
    pub(super) began: Instant,
    /// When to ask next.
    pub(super) next: Instant,
    pub(super) asked: u32,
}

impl Orphan {
    pub(super) fn new(
        token: Rc<str>,
        plan: Vec<Planned>,
        began: Instant,
        target: Target,
        now: Instant,
    ) -> Self {
        Self { token, plan, target, began, next: now, asked: 0 }
    }
}
