//! Queue of groups that the store refused, which are written part by part. Other requests are
//! served between two parts (CONTRACT PE04).

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::group::Group;

/// Refused groups in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct RefusedGroups {
    groups: VecDeque<Group>,
    /// True if other requests were served since the last part of a refused group.
    others_served: bool,
}

impl RefusedGroups {
    /// Appends `group`, unless all its rows are settled.
    pub(crate) fn push(&mut self, group: Group) {
        if !group.is_settled() {
            self.groups.push_back(group);
        }
    }

    /// None without a group.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.groups.iter().map(|group| group.not_before().unwrap_or(now)).min()
    }

    /// Removes the first group that may be written at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Group> {
        let index = self
            .groups
            .iter()
            .position(|group| group.not_before().is_none_or(|not_before| not_before <= now))?;
        self.others_served = false;
        self.groups.remove(index)
    }

    /// True if other requests were served since the last call of [`Self::take`].
    pub(crate) fn others_served(&self) -> bool {
        self.others_served
    }

    /// Records that other requests are served.
    pub(crate) fn set_others_served(&mut self) {
        self.others_served = true;
    }
}
