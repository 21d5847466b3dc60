//! Value of the configuration key (CONTRACT ID01 to ID04). Pure. A value that does not validate
//! ends the tasks of every worker, so the types are exactly the original's.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::roster::ConnectedWorker;

/// Version of dranspose whose formats are written.
pub(crate) const DRANSPOSE_VERSION: &str = "0.2.0";

/// Value of `dranspose:ingester:<name>:config`.
#[derive(Debug, Serialize)]
pub(crate) struct IngesterState<'a> {
    /// UUID of this process.
    pub service_uuid: Uuid,
    /// UUID of the current mapping.
    pub mapping_uuid: Option<Uuid>,
    /// Version of dranspose whose formats are written.
    pub dranspose_version: &'static str,
    /// Metadata of the build.
    pub mapreduce_version: Option<&'a BuildMeta>,
    /// Hash of the held parameters (CONTRACT ID11).
    pub parameters_hash: String,
    /// Events sent since the process started.
    pub processed_events: u64,
    /// Events a second, over the last full second.
    pub event_rate: f64,
    /// Name of the ingester.
    pub name: &'a str,
    /// Address that workers dial.
    pub url: &'a str,
    /// Connected workers by process UUID.
    pub connected_workers: &'a BTreeMap<Uuid, ConnectedWorker>,
    /// Names of the configured streams.
    pub streams: Vec<Arc<str>>,
    /// Metrics of this program; dranspose ignores unknown members.
    pub orchestrator: Value,
}

/// Origin of the user's code (`BUILD_META_FILE`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BuildMeta {
    /// Commit of the build.
    pub commit_hash: String,
    /// Branch of the build.
    pub branch_name: String,
    /// Time of the build, RFC 3339.
    pub timestamp: String,
    /// Repository of the code.
    pub repository_url: String,
}

/// Checks an ingester's name (CONTRACT IF02).
///
/// # Errors
/// The name is invalid; the text says what to change.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => Err("a name is needed".to_owned()),
        _ if name.contains(':') => {
            Err("a colon is not allowed in the Redis key of the ingester: remove it".to_owned())
        }
        _ => Ok(()),
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Event rate over the last full second.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    last: Option<(Instant, u64)>,
    rate: f64,
}

impl Rate {
    /// Rate after `events` events up to `now`; it changes once a second.
    pub(crate) fn update(&mut self, now: Instant, events: u64) -> f64 {
        match self.last {
            None => self.last = Some((now, events)),
            Some((then, before)) if now.saturating_duration_since(then) >= SECOND => {
                let seconds = now.saturating_duration_since(then).as_secs_f64();
                self.rate = events.saturating_sub(before) as f64 / seconds;
                self.last = Some((now, events));
            }
            Some(_) => {}
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::Roster;

    #[test]
    fn the_key_has_the_captured_fields_and_types() {
        let uuid = |text: &str| text.parse::<Uuid>().unwrap();
        let mut roster = Roster::default();
        roster.record_ping(
            "w1".into(),
            uuid("d469408d-22de-4771-a11c-6490592691f2"),
            Instant::now(),
            1_795_178_747.572_412_5,
        );
        let ingester_state = IngesterState {
            service_uuid: uuid("86cca159-3ab4-4ab6-a20d-6b11f8168335"),
            mapping_uuid: Some(uuid("6277a4d0-975c-4dfe-97be-7f6d1d5a5c38")),
            dranspose_version: DRANSPOSE_VERSION,
            mapreduce_version: None,
            parameters_hash: "d9bf".to_owned(),
            processed_events: 5,
            event_rate: 4.75,
            name: "eiger-ingester",
            url: "tcp://localhost:57529",
            connected_workers: roster.workers(),
            streams: vec!["eiger".into()],
            orchestrator: Value::Null,
        };
        let captured = r#"{"service_uuid":"86cca159-3ab4-4ab6-a20d-6b11f8168335","mapping_uuid":"6277a4d0-975c-4dfe-97be-7f6d1d5a5c38","dranspose_version":"0.2.0","mapreduce_version":null,"parameters_hash":"d9bf","processed_events":5,"event_rate":4.75,"name":"eiger-ingester","url":"tcp://localhost:57529","connected_workers":{"d469408d-22de-4771-a11c-6490592691f2":{"name":"w1","service_uuid":"d469408d-22de-4771-a11c-6490592691f2","last_seen":1795178747.5724125}},"streams":["eiger"],"orchestrator":null}"#;
        assert_eq!(serde_json::to_string(&ingester_state).unwrap(), captured);
    }

    #[test]
    fn a_rate_covers_the_last_full_second() {
        let mut rate = Rate::default();
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(rate.update(at(0), 100), 0.0);
        assert_eq!(rate.update(at(500), 150), 0.0);
        assert_eq!(rate.update(at(2_000), 300), 100.0);
        assert_eq!(rate.update(at(2_500), 900), 100.0);
        assert_eq!(rate.update(at(3_000), 300), 0.0);
    }
}
