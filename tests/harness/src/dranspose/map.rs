//! What a scan is to be: for each stream and event, who gets it.

use serde_json::{Value, json};

/// A map of one part, as the controller takes it. Every stream has the same number of events.
#[derive(Debug, Clone, Default)]
pub struct Map {
    streams: Vec<(String, Vec<Value>)>,
}

impl Map {
    /// A stream with `events` events, each for one worker, whichever is idle.
    pub fn each(stream: &str, events: usize) -> Self {
        Self::default().and(stream, (0..events).map(Self::one).collect())
    }

    /// With one more stream; `events` of [`Map::one`], [`Map::all`], [`Map::nobody`] or [`Map::HOLE`].
    #[must_use]
    pub fn and(mut self, stream: &str, events: Vec<Value>) -> Self {
        self.streams.push((stream.to_owned(), events));
        self
    }

    /// The stream has no frame in this event.
    pub const HOLE: Value = Value::Null;

    /// The frame is for one worker; equal numbers are the same worker.
    pub fn one(constraint: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": constraint}])
    }

    /// The frame is for a certain worker: each of a [`super::Facility`] has its name as a tag. A number stands for one worker only.
    pub fn own(worker: &str, constraint: usize) -> Value {
        json!([{"tags": [worker], "constraint": constraint}])
    }

    /// The frame is for two workers, or twice for the same.
    pub fn two(first: usize, second: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": first}, {"tags": ["generic"], "constraint": second}])
    }

    /// The frame is for all workers.
    pub fn all() -> Value {
        json!([{"tags": ["generic"], "constraint": null}])
    }

    /// The frame is for the debug workers as well as for one.
    pub fn one_and_debug(constraint: usize) -> Value {
        json!([{"tags": ["generic"], "constraint": constraint}, {"tags": ["debug"], "constraint": null}])
    }

    /// There is a frame, and nobody wants it.
    pub fn nobody() -> Value {
        json!([])
    }

    /// The body of `POST /api/v1/sequence`.
    pub fn body(&self) -> String {
        let part: serde_json::Map<_, _> =
            self.streams.iter().map(|(name, events)| (name.clone(), json!(events))).collect();
        json!({"parts": {"main": part}, "sequence": ["main"]}).to_string()
    }

    /// What stands for `stream` at event number `event`, where the first and the last are the controller's own: null if it has
    /// no frame there.
    pub(super) fn at(&self, stream: &str, event: usize) -> Option<&Value> {
        let (_, events) = self.streams.iter().find(|(name, _)| name == stream)?;
        events.get(event.checked_sub(1)?)
    }

    /// The streams.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.streams.iter().map(|(name, _)| name.as_str())
    }

    /// Events with the two that the controller adds.
    pub fn events(&self) -> usize {
        self.streams.first().map_or(0, |(_, events)| events.len()) + 2
    }
}

/// A map that was posted.
#[derive(Debug, Clone)]
pub struct Scan {
    /// What the controller calls it.
    pub uuid: String,
    /// What was posted.
    pub map: Map,
}
