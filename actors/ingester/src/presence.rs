//! The configuration key: what an ingester tells of itself (CONTRACT ID01 to ID04). Pure. A key that does not validate ends the tasks of every
//! worker, so that its types are those of the original.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::roster::ConnectedWorker;

/// The version whose wire this is.
pub const DRANSPOSE_VERSION: &str = "0.2.0";

/// The value of `dranspose:ingester:<name>:config`.
#[derive(Debug, Serialize)]
pub struct Presence<'a> {
    /// This process.
    pub service_uuid: Uuid,
    /// The mapping that was taken.
    pub mapping_uuid: Option<Uuid>,
    /// The version whose wire this is.
    pub dranspose_version: &'static str,
    /// From the build's own file.
    pub mapreduce_version: Option<&'a BuildMeta>,
    /// Of the parameters that are held.
    pub parameters_hash: String,
    /// Since the process started.
    pub processed_events: u64,
    /// Events a second, of the last full second.
    pub event_rate: f64,
    /// The ingester.
    pub name: &'a str,
    /// Where workers dial it.
    pub url: &'a str,
    /// By process.
    pub connected_workers: &'a BTreeMap<Uuid, ConnectedWorker>,
    /// What it can ingest.
    pub streams: Vec<Arc<str>>,
    /// Metrics of ours; readers ignore what they do not know.
    pub orchestrator: Value,
}

/// Where the user's code comes from, if its build says so (`BUILD_META_FILE`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct BuildMeta {
    /// Of the build.
    pub commit_hash: String,
    /// Of the build.
    pub branch_name: String,
    /// When it was built, RFC 3339.
    pub timestamp: String,
    /// Of the code.
    pub repository_url: String,
}

/// Checks an ingester's name (CONTRACT IF02).
///
/// # Errors
/// The text says what to change.
pub fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => Err("a name is needed".to_owned()),
        _ if name.contains(':') => {
            Err("a colon would break the key that it is published under: leave it out".to_owned())
        }
        _ => Ok(()),
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Events a second over the last full second.
#[derive(Debug, Default)]
pub struct Rate {
    last: Option<(Instant, u64)>,
    rate: f64,
}

impl Rate {
    /// `events` were counted up to `now`. A new rate is made once a second has passed.
    pub fn update(&mut self, now: Instant, events: u64) -> f64 {
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
        roster.heard(
            "w1".into(),
            uuid("d469408d-22de-4771-a11c-6490592691f2"),
            Instant::now(),
            1_795_178_747.572_412_5,
        );
        let presence = Presence {
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
        assert_eq!(serde_json::to_string(&presence).unwrap(), captured);
    }

    #[test]
    fn a_rate_is_that_of_the_last_full_second() {
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
