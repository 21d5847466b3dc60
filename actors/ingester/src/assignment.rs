//! Assignment of events to workers (CONTRACT IO08, IO09). Pure: reads entries of the `assigned`
//! stream and returns the part for this ingester.

mod event;
mod plain;

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use smallvec::SmallVec;

pub(crate) use self::event::{Assignment, WorkerList, WorkerName};
use self::event::{ReaderState, intern};

/// Reader of entries for this ingester's active streams.
#[derive(Debug)]
pub(crate) struct Reader(ReaderState);

impl Reader {
    /// Reader for the active streams, in message order.
    pub(crate) fn new(streams: Vec<Arc<str>>) -> Self {
        Self(ReaderState { streams, names: BTreeSet::new() })
    }

    /// Assignments of one entry for the active streams.
    ///
    /// # Errors
    /// The entry does not have the controller's format.
    pub(crate) fn read(&mut self, entry: &[u8]) -> Result<Vec<Assignment>, serde_json::Error> {
        match plain::read(&mut self.0, entry) {
            Some(mine) => Ok(mine),
            None => self.read_any(entry),
        }
    }

    fn read_any(&mut self, entry: &[u8]) -> Result<Vec<Assignment>, serde_json::Error> {
        let mut read = serde_json::Deserializer::from_slice(entry);
        let mine = Entry(&mut self.0).deserialize(&mut read)?;
        read.end()?;
        Ok(mine)
    }
}

/// Deserializer of an entry. Other ingesters' streams allocate nothing.
struct Entry<'a>(&'a mut ReaderState);

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = Vec<Assignment>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = Vec<Assignment>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Self::Value, A::Error> {
        let mut mine = Vec::new();
        while let Some(event) = events.next_element_seed(Event(self.0))? {
            mine.extend(event);
        }
        Ok(mine)
    }
}

/// Deserializer of one event; None if no active stream is in it.
struct Event<'a>(&'a mut ReaderState);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    EventNumber,
    Assignments,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for Event<'_> {
    type Value = Option<Assignment>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Event<'_> {
    type Value = Option<Assignment>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event with its number and assignments")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut event, mut streams) = (None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                Field::EventNumber => event = Some(fields.next_value()?),
                Field::Assignments => streams = Some(fields.next_value_seed(EventStreams(self.0))?),
                Field::Other => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        let event = event.ok_or_else(|| A::Error::missing_field("event_number"))?;
        let streams = streams.ok_or_else(|| A::Error::missing_field("assignments"))?;
        Ok((!streams.is_empty()).then_some(Assignment { event, streams }))
    }
}

/// Deserializer of an event's streams: those active here, in message order.
struct EventStreams<'a>(&'a mut ReaderState);

impl<'de> DeserializeSeed<'de> for EventStreams<'_> {
    type Value = SmallVec<[(usize, WorkerList); 1]>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventStreams<'_> {
    type Value = SmallVec<[(usize, WorkerList); 1]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("workers by stream")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut streams: A) -> Result<Self::Value, A::Error> {
        let ReaderState { streams: known, names } = self.0;
        let mut mine = Self::Value::with_capacity(known.len());
        while let Some(position) = streams.next_key_seed(StreamPosition(known))? {
            let Some(position) = position else {
                streams.next_value::<IgnoredAny>()?;
                continue;
            };
            let workers = streams.next_value_seed(Workers(names))?;
            // The last of repeated keys wins.
            match mine.binary_search_by_key(&position, |(position, _)| *position) {
                Ok(at) => mine[at].1 = workers,
                Err(at) => mine.insert(at, (position, workers)),
            }
        }
        Ok(mine)
    }
}

/// Position of a name among the active streams.
struct StreamPosition<'a>(&'a [Arc<str>]);

impl<'de> DeserializeSeed<'de> for StreamPosition<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for StreamPosition<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|stream| &**stream == name))
    }
}

/// Deserializer of a stream's workers.
struct Workers<'a>(&'a mut BTreeSet<WorkerName>);

impl<'de> DeserializeSeed<'de> for Workers<'_> {
    type Value = WorkerList;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Workers<'_> {
    type Value = WorkerList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of workers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Self::Value, A::Error> {
        let mut workers = WorkerList::new();
        while let Some(name) = names.next_element_seed(Name(self.0))? {
            workers.push(name);
        }
        Ok(workers)
    }
}

/// Deserializer of a worker's name.
struct Name<'a>(&'a mut BTreeSet<WorkerName>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = WorkerName;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = WorkerName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a worker's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(intern(self.0, name))
    }
}

#[cfg(test)]
mod tests;
