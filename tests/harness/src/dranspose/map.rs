//! Mapping of a scan: the workers that receive each event of each stream.

use serde_json::{Value, json};

/// Mapping in the controller's format. Every stream has the same number of events.
#[derive(Debug, Clone, Default)]
pub struct Map {
    streams: Vec<(String, Vec<Value>)>,
}

impl Map {
    /// Mapping of one stream with `events` events, each for any one worker.
    pub fn of_stream(stream: &str, events: usize) -> Self {
        Self::default().with_stream(stream, (0..events).map(Self::any_worker).collect())
    }

    /// Adds a stream; `events` are values such as [`Map::any_worker`], [`Map::all_workers`],
    /// [`Map::no_worker`] and [`Map::NO_FRAME`].
    #[must_use]
    pub fn with_stream(mut self, stream: &str, events: Vec<Value>) -> Self {
        self.streams.push((stream.to_owned(), events));
        self
    }

    /// Event without a frame in this stream.
    pub const NO_FRAME: Value = Value::Null;

    /// Frame for any one worker; equal `constraint` numbers mean the same worker.
    pub fn any_worker(constraint: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": constraint}])
    }

    /// Frame for the worker named `worker`. A `constraint` number must belong to one worker only.
    pub fn named_worker(worker: &str, constraint: usize) -> Value {
        json!([{"tags": [worker], "constraint": constraint}])
    }

    /// Frame for two workers, which may be the same.
    pub fn two_workers(first: usize, second: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": first}, {"tags": ["generic"], "constraint": second}])
    }

    /// Frame for all workers.
    pub fn all_workers() -> Value {
        json!([{"tags": ["generic"], "constraint": null}])
    }

    /// Frame for one worker and for all debug workers.
    pub fn any_worker_and_debug(constraint: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": constraint}, {"tags": ["debug"], "constraint": null}])
    }

    /// Frame for no worker.
    pub fn no_worker() -> Value {
        json!([])
    }

    /// The body of `POST /api/v1/sequence`.
    pub fn body(&self) -> String {
        let part: serde_json::Map<_, _> =
            self.streams.iter().map(|(name, events)| (name.clone(), json!(events))).collect();
        json!({"parts": {"main": part}, "sequence": ["main"]}).to_string()
    }

    /// Assignment of `stream` at event number `event`, or null without a frame.
    ///
    /// None for the first and the last event, which the controller adds.
    pub(super) fn at(&self, stream: &str, event: usize) -> Option<&Value> {
        let (_, events) = self.streams.iter().find(|(name, _)| name == stream)?;
        events.get(event.checked_sub(1)?)
    }

    /// Names of the streams.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.streams.iter().map(|(name, _)| name.as_str())
    }

    /// Number of events, with the two that the controller adds.
    pub fn events(&self) -> usize {
        self.streams.first().map_or(0, |(_, events)| events.len()) + 2
    }
}

/// Scan of a posted mapping.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The controller's id of the mapping.
    pub uuid: String,
    /// The posted mapping.
    pub map: Map,
}
