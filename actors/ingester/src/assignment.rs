//! Which workers each event goes to (spec §7). Pure: entries of the `assigned` stream in, my part of them out.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde::Deserialize;

/// A worker's name: the identity of its socket.
pub type WorkerName = Arc<str>;

/// Where one event's item of each of my active streams goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Number of the event.
    pub event: u64,
    /// Position of a stream among the active ones, and the workers that its item is sent to; none: it is thrown away.
    pub streams: Vec<(usize, Vec<WorkerName>)>,
}

/// Reads entries for the streams that are active here.
#[derive(Debug)]
pub struct Reader {
    streams: Vec<Arc<str>>,
    names: BTreeSet<WorkerName>,
}

/// Names that are kept for sharing; more than that many workers only cost a copy each.
const NAMES_MAX: usize = 4_096;

#[derive(Deserialize)]
struct Wire<'a> {
    event_number: u64,
    #[serde(borrow)]
    assignments: HashMap<std::borrow::Cow<'a, str>, Vec<std::borrow::Cow<'a, str>>>,
}

impl Reader {
    /// For the active streams, in the order in which a message has them.
    pub fn new(streams: Vec<Arc<str>>) -> Self {
        Self { streams, names: BTreeSet::new() }
    }

    /// The assignments of one entry that concern an active stream.
    ///
    /// # Errors
    /// It is not what a controller writes.
    pub fn read(&mut self, entry: &[u8]) -> Result<Vec<Assignment>, serde_json::Error> {
        let wire: Vec<Wire<'_>> = serde_json::from_slice(entry)?;
        Ok(wire.into_iter().filter_map(|one| self.mine(one)).collect())
    }

    fn mine(&mut self, wire: Wire<'_>) -> Option<Assignment> {
        let mut streams = Vec::new();
        for (position, stream) in self.streams.iter().enumerate() {
            if let Some(workers) = wire.assignments.get(&**stream) {
                streams.push((position, workers));
            }
        }
        let names = &mut self.names;
        let streams: Vec<_> = streams
            .into_iter()
            .map(|(position, workers)| (position, workers.iter().map(|name| shared(names, name)).collect()))
            .collect();
        (!streams.is_empty()).then_some(Assignment { event: wire.event_number, streams })
    }
}

fn shared(names: &mut BTreeSet<WorkerName>, name: &str) -> WorkerName {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let new: WorkerName = name.into();
    if names.len() < NAMES_MAX {
        names.insert(new.clone());
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(streams: &[&str]) -> Reader {
        Reader::new(streams.iter().map(|stream| (*stream).into()).collect())
    }

    #[test]
    fn my_part_is_taken_in_the_order_of_the_streams() {
        let entry = br#"[{"event_number":0,"assignments":{"pcap":["w1","w2"],"eiger":["w1"],"other":["w9"]}},
            {"event_number":1,"assignments":{"other":["w2"]}},{"event_number":2,"assignments":{"eiger":[]}}]"#;
        let read = reader(&["eiger", "pcap"]).read(entry).unwrap();
        assert_eq!(
            read,
            [
                Assignment {
                    event: 0,
                    streams: vec![(0, vec!["w1".into()]), (1, vec!["w1".into(), "w2".into()])]
                },
                Assignment { event: 2, streams: vec![(0, vec![])] },
            ]
        );
    }

    #[test]
    fn names_are_shared_and_escapes_understood() {
        let mut reader = reader(&["a\"b"]);
        let entry = br#"[{"event_number":7,"assignments":{"a\"b":["w1"]}},{"event_number":8,"assignments":{"a\"b":["w1"]}}]"#;
        let read = reader.read(entry).unwrap();
        assert!(Arc::ptr_eq(&read[0].streams[0].1[0], &read[1].streams[0].1[0]));
    }

    #[test]
    fn what_no_controller_writes_is_refused() {
        for entry in [&b""[..], b"{}", b"[{}]", br#"[{"event_number":-1,"assignments":{}}]"#] {
            assert!(reader(&["eiger"]).read(entry).is_err());
        }
    }
}
