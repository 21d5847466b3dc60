//! The mapping that is followed, and those before it. Pure.

use std::collections::VecDeque;

use uuid::Uuid;

use crate::updates::FORMER_MAX;

/// The mapping that is followed, or was last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its uuid; None before the first.
    pub uuid: Option<Uuid>,
    /// Positions of the streams that it uses.
    pub active: Vec<usize>,
    /// The file that its events are dumped to.
    pub dump: Option<String>,
    /// Number of the mapping in this process, from 1.
    pub number: u64,
    /// The controller has said that it is finished.
    pub finished: bool,
    /// So had the mapping before it been.
    pub former_finished: bool,
}

/// The state of the actor Ingester that outlives its restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mappings {
    /// The mapping that is followed.
    pub current: Mapping,
    /// The mappings before it, the oldest first: as many as are remembered.
    pub former: VecDeque<Uuid>,
}

impl Mappings {
    /// Begins with the next mapping; returns its number.
    pub fn follow(&mut self, uuid: Uuid, active: Vec<usize>, dump: Option<String>) -> u64 {
        self.former.extend(self.current.uuid);
        if self.former.len() > FORMER_MAX {
            self.former.pop_front();
        }
        self.current = Mapping {
            uuid: Some(uuid),
            active,
            dump,
            number: self.current.number + 1,
            finished: false,
            former_finished: self.current.finished,
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
            assert_eq!(mappings.follow(Uuid::from_u128(n), vec![0], None), n as u64 + 1);
            mappings.current.finished = n % 2 == 0;
        }
        assert_eq!(mappings.former.len(), FORMER_MAX);
        assert_eq!(mappings.former.front(), Some(&Uuid::from_u128(2)));
        assert!(!mappings.current.former_finished, "the last but one was not finished");
    }
}
