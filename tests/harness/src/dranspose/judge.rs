//! Was each event with each worker that was to have it, once, in order, and with the bytes that the sources sent?

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Facility, Scan};

/// What a source sent for the events of a scan: the stream's name, the type of its messages, and for each event what
/// [`super::Source::send`] gave, or an object with all that a worker notes: these `parts`, and what its code made of them.
pub(super) type Sent<'a> = (&'a str, &'a str, &'a [Value]);

/// How much of a scan came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Events that the controller had assigned.
    pub assigned: usize,
    /// Events that workers had, those for several counted for each.
    pub had: usize,
}

/// Compares the controller's assignments with the map, and all that all workers noted with both and with what was sent. A
/// scan that was `whole` has come completely; of another the workers have the beginning.
///
/// # Panics
/// If anything is not as it must be.
pub fn judge(facility: &Facility, scan: &Scan, sent: &[Sent<'_>], whole: bool) -> Judged {
    // Before the assignments: those that come meanwhile are in no worker's notes then.
    let noted: Vec<_> =
        facility.worker_names().map(|worker| (worker, facility.recorded(worker, scan))).collect();
    let assigned = facility.assigned(scan);
    assert!(!whole || assigned.len() == scan.map.events(), "{} events were assigned", assigned.len());
    let mut next: BTreeMap<_, _> =
        sent.iter().map(|(stream, typ, items)| (*stream, (*typ, items.iter()))).collect();
    let mut wanted: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let streams: Vec<_> = scan.map.streams().collect();
    for (number, event) in assigned.iter().enumerate() {
        assert_eq!(event["event_number"], number, "event numbers follow each other");
        let mut of_workers: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
        for stream in &streams {
            let workers = &event["assignments"][stream];
            assert_eq!(
                workers.is_null(),
                is_hole(scan, stream, number),
                "event {number} of {stream}: {workers}"
            );
            let Some(workers) = workers.as_array() else { continue };
            let (typ, items) = next.get_mut(stream).expect("a source for each stream");
            // Nothing was sent for it yet: then nobody can have it.
            let Some(item) = items.next() else { continue };
            for worker in workers {
                let worker = worker.as_str().expect("a name").to_owned();
                of_workers.entry(worker).or_default().insert(stream, noted_of(typ, item));
            }
        }
        for (worker, streams) in of_workers {
            let event = json!({"mapping": scan.uuid, "event": number, "streams": streams});
            wanted.entry(worker).or_default().push(event);
        }
    }
    let mut had = 0;
    for (worker, is) in noted {
        let must = wanted.remove(worker).unwrap_or_default();
        let agree = is.iter().zip(&must).take_while(|(is, must)| is == must).count();
        assert!(
            agree == is.len(),
            "{worker}, event {agree} in its order:\n{}\nis not\n{:?}",
            is[agree],
            must.get(agree)
        );
        assert!(!whole || is.len() == must.len(), "{worker} has {} of {} events", is.len(), must.len());
        had += is.len();
    }
    Judged { assigned: assigned.len(), had }
}

/// What a worker's code is to note of an item.
fn noted_of(typ: &str, item: &Value) -> Value {
    let mut noted = if item.is_object() { item.clone() } else { json!({ "parts": item }) };
    noted["typ"] = json!(typ);
    noted
}

/// Has the stream no frame in this event? All have one in the first and the last, which the controller adds.
fn is_hole(scan: &Scan, stream: &str, number: usize) -> bool {
    number != 0 && number + 1 != scan.map.events() && scan.map.at(stream, number).is_none_or(Value::is_null)
}
