//! Groups with rows at fault, which are written part by part. Between two parts others may be served.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::group::Group;

/// Groups that the store refused, in turn.
#[derive(Debug, Default)]
pub(crate) struct RefusedGroups {
    groups: VecDeque<Group>,
    /// Others were served last.
    is_next: bool,
}

impl RefusedGroups {
    /// Adds `group` behind the others, unless nothing of it is left to be written.
    pub(crate) fn put(&mut self, group: Group) {
        if !group.is_settled() {
            self.groups.push_back(group);
        }
    }

    /// Time of the next write; None when there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.groups.iter().map(|group| group.not_before().unwrap_or(now)).min()
    }

    /// Takes the first group that may be written now. Then others are served.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Group> {
        let place = self
            .groups
            .iter()
            .position(|group| group.not_before().is_none_or(|not_before| not_before <= now))?;
        self.is_next = false;
        self.groups.remove(place)
    }

    /// Tells whether others were served since a group was taken.
    pub(crate) fn is_next(&self) -> bool {
        self.is_next
    }

    /// Notes that others are served.
    pub(crate) fn pass_turn(&mut self) {
        self.is_next = true;
    }
}
