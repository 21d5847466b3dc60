//! Checks that each worker received each of its events once, in order, with the bytes that the sources sent.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Deployment, Scan};

/// Messages that a source sent: the stream's name, the message type, and for each event the result of
/// [`super::Source::send`], or an object with all that a worker records: these `parts` and the parsed values.
pub(super) type Sent<'a> = (&'a str, &'a str, &'a [Value]);

/// Numbers of events of a checked scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveredEvents {
    /// Events that the controller assigned.
    pub assigned: usize,
    /// Events that workers received, counted for each worker.
    pub had: usize,
}

/// Compares the controller's assignments with the mapping, and the workers' records with both and with
/// `sent`.
///
/// Workers must have every event of a `whole` scan, and the first ones of any other.
///
/// # Panics
/// If anything differs.
pub fn check_scan(deployment: &Deployment, scan: &Scan, sent: &[Sent<'_>], whole: bool) -> DeliveredEvents {
    // Read before the assignments, so that assignments made meanwhile are in no worker's record.
    let noted: Vec<_> =
        deployment.worker_names().map(|worker| (worker, deployment.recorded_events(worker, scan))).collect();
    let assigned = deployment.assignments(scan);
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
            // Nothing was sent for it yet, so no worker can have received it.
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
    DeliveredEvents { assigned: assigned.len(), had }
}

/// Expected record of an item.
fn noted_of(typ: &str, item: &Value) -> Value {
    let mut noted = if item.is_object() { item.clone() } else { json!({ "parts": item }) };
    noted["typ"] = json!(typ);
    noted
}

/// True if the stream has no frame in this event. All streams have one in the first and the last event,
/// which the controller adds.
fn is_hole(scan: &Scan, stream: &str, number: usize) -> bool {
    number != 0 && number + 1 != scan.map.events() && scan.map.at(stream, number).is_none_or(Value::is_null)
}
