//! The current mapping and the former ones (CONTRACT IO01 to IO03). Pure.

use std::collections::VecDeque;

use uuid::Uuid;

/// Former mappings that are remembered, so that none of them is taken for a new one.
pub(crate) const FORMER_MAX: usize = 64;

/// The current or last mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// UUID; None before the first mapping.
    pub uuid: Option<Uuid>,
    /// Positions of the streams that the mapping uses.
    pub active: Vec<usize>,
    /// Other ingesters take part in it.
    pub shared: bool,
    /// Dump file of its events.
    pub dump: Option<String>,
    /// Number of the mapping in this process, from 1.
    pub number: u64,
    /// The controller has finished the mapping.
    pub finished: bool,
    /// The controller had finished the mapping before it.
    pub former_finished: bool,
    /// Events that were sent before it, since the process started.
    pub sent_before: u64,
}

/// Durable state of the actor Ingester.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mappings {
    /// The current mapping.
    pub current: Mapping,
    /// Former mappings, oldest first, at most [`FORMER_MAX`].
    pub former: VecDeque<Uuid>,
}

impl Mappings {
    /// True if an update with this UUID begins a mapping. Each update of the controller has the UUID of its
    /// current mapping, and updates are delivered again after a restart.
    pub(crate) fn is_new(&self, uuid: Uuid) -> bool {
        self.current.uuid != Some(uuid) && !self.former.contains(&uuid)
    }

    /// Begins the next mapping and returns its number.
    pub(crate) fn begin(
        &mut self,
        uuid: Uuid,
        (active, shared): (Vec<usize>, bool),
        dump: Option<String>,
        sent_before: u64,
    ) -> u64 {
        self.former.extend(self.current.uuid);
        if self.former.len() > FORMER_MAX {
            self.former.pop_front();
        }
        self.current = Mapping {
            uuid: Some(uuid),
            active,
            shared,
            dump,
            number: self.current.number + 1,
            finished: false,
            former_finished: self.current.finished,
            sent_before,
        };
        self.current.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_mappings_are_remembered_up_to_a_bound() {
        let mut mappings = Mappings::default();
        for n in 0..FORMER_MAX as u128 + 3 {
            assert!(mappings.is_new(Uuid::from_u128(n)));
            assert_eq!(mappings.begin(Uuid::from_u128(n), (vec![0], false), None, 0), n as u64 + 1);
            assert!((0..=n).rev().take(FORMER_MAX + 1).all(|known| !mappings.is_new(Uuid::from_u128(known))));
            mappings.current.finished = n % 2 == 0;
        }
        assert_eq!(mappings.former.len(), FORMER_MAX);
        assert_eq!(mappings.former.front(), Some(&Uuid::from_u128(2)));
        assert!(!mappings.current.former_finished, "the last but one was not finished");
    }
}
