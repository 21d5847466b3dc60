//! Updates of the controller, and the actions that they require (CONTRACT IO01 to IO03). Pure.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use uuid::Uuid;

/// Former mappings that are remembered: one of them is not taken for a new one.
pub const FORMER_MAX: usize = 64;

/// An entry of `dranspose:controller:updates`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ControllerUpdate {
    /// The mapping that the controller has now.
    pub mapping_uuid: Uuid,
    /// Version of each parameter.
    #[serde(default)]
    pub parameters_version: BTreeMap<String, Uuid>,
    /// Streams of a new mapping; none in the other kinds of update, and missing with controllers before 0.1.
    #[serde(default)]
    pub active_streams: Option<Vec<String>>,
    /// All events are done, or the scan was stopped.
    #[serde(default)]
    pub finished: bool,
}

/// What one update asks for, in this order: parameters, then a new mapping, then the answer to `finished`, then publishing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// A mapping begins with these of my streams.
    pub begin: Option<(Uuid, Vec<String>)>,
    /// `finished` is to be answered under this mapping.
    pub finish: Option<Uuid>,
}

/// Which mapping is followed.
#[derive(Debug, Clone, Default)]
pub struct Following {
    mapping: Option<Uuid>,
    former: VecDeque<Uuid>,
}

impl Following {
    /// Goes on with `mapping`, after a restart of the child that knew it. Updates may be handed over again, so that those before
    /// it are still known as `former` ones.
    pub fn resumed(mapping: Option<Uuid>, former: VecDeque<Uuid>) -> Self {
        Self { mapping, former }
    }

    /// The mapping that is followed; None before the first.
    pub fn mapping(&self) -> Option<Uuid> {
        self.mapping
    }

    /// Takes one update. Every entry must be given, in order: a nudge that lands right behind a new mapping has its uuid, but
    /// no streams.
    pub fn take(&mut self, update: &ControllerUpdate, mine: &[impl AsRef<str>]) -> Turn {
        let uuid = update.mapping_uuid;
        let is_new = self.mapping != Some(uuid) && !self.former.contains(&uuid);
        let begin = is_new.then(|| {
            if let Some(former) = self.mapping.replace(uuid) {
                self.former.push_back(former);
            }
            if self.former.len() > FORMER_MAX {
                self.former.pop_front();
            }
            (uuid, active(update, mine))
        });
        Turn { begin, finish: update.finished.then_some(uuid) }
    }
}

/// Those of `mine` that the update names; all where it cannot name any (0.0.4).
fn active(update: &ControllerUpdate, mine: &[impl AsRef<str>]) -> Vec<String> {
    let named = |stream: &&str| match &update.active_streams {
        Some(streams) => streams.iter().any(|one| one == stream),
        None => true,
    };
    mine.iter().map(AsRef::as_ref).filter(named).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
