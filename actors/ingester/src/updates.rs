//! Updates of the controller. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use uuid::Uuid;

/// An entry of `dranspose:controller:updates`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ControllerUpdate {
    /// Current mapping of the controller.
    pub mapping_uuid: Uuid,
    /// Version of each parameter.
    #[serde(default)]
    pub parameters_version: BTreeMap<String, Uuid>,
    /// Streams of a new mapping; empty in other updates, and missing with controllers before 0.1.
    #[serde(default)]
    pub active_streams: Option<Vec<String>>,
    /// All events are processed, or the scan was stopped.
    #[serde(default)]
    pub finished: bool,
}

impl ControllerUpdate {
    /// Positions in `mine` of the streams that the update names; all if it names none (0.0.4).
    pub(crate) fn active<'a>(&self, mine: impl Iterator<Item = &'a str>) -> Vec<usize> {
        let is_named = |stream: &str| match &self.active_streams {
            Some(streams) => streams.iter().any(|one| one == stream),
            None => true,
        };
        mine.enumerate().filter(|(_, stream)| is_named(stream)).map(|(position, _)| position).collect()
    }

    /// Number of streams that the update names, of all ingesters; 0 if it names none.
    pub(crate) fn streams_count(&self) -> usize {
        self.active_streams.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(text: &str) -> Vec<usize> {
        let update: ControllerUpdate = serde_json::from_str(text).unwrap();
        update.active(["eiger", "pcap"].into_iter())
    }

    #[test]
    fn the_captured_update_is_read() {
        let text = r#"{"mapping_uuid":"6277a4d0-975c-4dfe-97be-7f6d1d5a5c38","parameters_version":{"dump_prefix":"981b7b5c-975c-4dfe-97be-7f6d1d5a5c38"},
            "target_parameters_hash":null,"active_streams":["pcap","other"],"finished":false}"#;
        let update: ControllerUpdate = serde_json::from_str(text).unwrap();
        assert_eq!((update.parameters_version.len(), update.finished), (1, false));
        assert_eq!(active(text), [1]);
    }

    #[test]
    fn without_active_streams_all_streams_are_used() {
        let uuid = r#""mapping_uuid":"6277a4d0-975c-4dfe-97be-7f6d1d5a5c38""#;
        assert_eq!(active(&format!("{{{uuid}}}")), [0, 1]);
        assert!(active(&format!(r#"{{{uuid},"active_streams":[]}}"#)).is_empty());
    }
}
