//! Assignment of events to workers (CONTRACT IO08, IO09). Pure: entries of the `assigned` stream in, my part of them out.

mod event;
mod plain;

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use smallvec::SmallVec;

pub use self::event::{Addressees, Assignment, WorkerName};
use self::event::{Known, shared};

/// Reads entries for the streams that are active here.
#[derive(Debug)]
pub struct Reader(Known);

impl Reader {
    /// For the active streams, in the order in which a message has them.
    pub fn new(streams: Vec<Arc<str>>) -> Self {
        Self(Known { streams, names: BTreeSet::new() })
    }

    /// The assignments of one entry that concern an active stream.
    ///
    /// # Errors
    /// It is not what a controller writes.
    pub fn read(&mut self, entry: &[u8]) -> Result<Vec<Assignment>, serde_json::Error> {
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

/// An entry: nothing is made of what is not mine.
struct Entry<'a>(&'a mut Known);

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

/// One event; None if no active stream is in it.
struct Event<'a>(&'a mut Known);

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
                Field::Assignments => streams = Some(fields.next_value_seed(Streams(self.0))?),
                Field::Other => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        let event = event.ok_or_else(|| A::Error::missing_field("event_number"))?;
        let streams = streams.ok_or_else(|| A::Error::missing_field("assignments"))?;
        Ok((!streams.is_empty()).then_some(Assignment { event, streams }))
    }
}

/// The streams of an event: mine, in the order of a message.
struct Streams<'a>(&'a mut Known);

impl<'de> DeserializeSeed<'de> for Streams<'_> {
    type Value = SmallVec<[(usize, Addressees); 1]>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Streams<'_> {
    type Value = SmallVec<[(usize, Addressees); 1]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("workers by stream")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut streams: A) -> Result<Self::Value, A::Error> {
        let Known { streams: known, names } = self.0;
        let mut mine = Self::Value::with_capacity(known.len());
        while let Some(position) = streams.next_key_seed(Position(known))? {
            let Some(position) = position else {
                streams.next_value::<IgnoredAny>()?;
                continue;
            };
            let workers = streams.next_value_seed(Workers(names))?;
            // Of a repeated one the last counts.
            match mine.binary_search_by_key(&position, |(position, _)| *position) {
                Ok(at) => mine[at].1 = workers,
                Err(at) => mine.insert(at, (position, workers)),
            }
        }
        Ok(mine)
    }
}

/// Which of the active streams a name is.
struct Position<'a>(&'a [Arc<str>]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stream's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|stream| &**stream == name))
    }
}

/// The workers of a stream.
struct Workers<'a>(&'a mut BTreeSet<WorkerName>);

impl<'de> DeserializeSeed<'de> for Workers<'_> {
    type Value = Addressees;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Workers<'_> {
    type Value = Addressees;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of workers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Self::Value, A::Error> {
        let mut workers = Addressees::new();
        while let Some(name) = names.next_element_seed(Name(self.0))? {
            workers.push(name);
        }
        Ok(workers)
    }
}

/// A worker's name.
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
        Ok(shared(self.0, name))
    }
}

#[cfg(test)]
mod tests;
