//! Finds the worker that reads nothing although events wait for it. Pure.

use std::time::Duration;

use orchestrator_text::sanitize_to;

use super::peer_state::PeerState;

/// Time after which a worker that takes no byte of its queue counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(2);
/// Most names of further slow workers.
const NAMES_MAX: usize = 3;
/// Longest name of a worker in a text, bytes.
const NAME_BYTES: usize = 64;

/// Report of a worker that holds up a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerCause {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) help: String,
}

/// Worker that has read nothing for the longest time. `holds_senders` tells whether all sending waits for a
/// full queue.
pub(super) fn find(states: &[PeerState], holds_senders: bool) -> Option<WorkerCause> {
    let mut slow: Vec<_> = states.iter().filter_map(|state| Some((stalled(state)?, state))).collect();
    slow.sort_by(|a, b| (b.0, &a.1.worker).cmp(&(a.0, &b.1.worker)));
    let ((span, first), others) = slow.split_first()?;
    let worker = name(first);
    let bytes = format!("{} bytes in memory and {} on disk", first.queued_bytes, first.spilled_bytes);
    let (kind, state) =
        if first.connected { ("slow_worker", "reads nothing") } else { ("worker_away", "is not connected") };
    let text = format!("worker {worker} {state}: {bytes} wait for it");
    let since = match first.taken_age {
        None => "was needed",
        Some(_) if first.bytes_out == 0 => "connected, and has taken nothing since,",
        Some(_) => "took its last byte",
    };
    let seconds = first.taken_age.unwrap_or(*span).as_secs_f64();
    let mut evidence = vec![
        format!("{worker} {since} {seconds:.1} s ago"),
        format!("{} events wait for it, {} were sent", first.queued_messages, first.events_out),
    ];
    if holds_senders {
        evidence.push("a queue is full in memory and on disk: all workers wait".to_owned());
    }
    evidence.extend(further(others.iter().map(|(_, state)| *state)));
    Some(WorkerCause { kind, text, evidence, help: help(first) })
}

/// Fact about further workers; None without any.
pub(super) fn further<'a>(others: impl ExactSizeIterator<Item = &'a PeerState>) -> Option<String> {
    let count = others.len();
    let names: Vec<_> = others.take(NAMES_MAX).map(name).collect();
    (count > 0).then(|| format!("{count} more workers, for example {}", names.join(", ")))
}

/// Help for a worker that holds up a scan.
pub(super) fn help(state: &PeerState) -> String {
    let verb = if state.connected { "restart" } else { "start" };
    format!(
        "orchestrator ingester status; {verb} worker {}, then begin the scan again, with a new mapping",
        name(state)
    )
}

/// Time for which events wait and the worker has taken nothing; None if it is shorter than
/// [`SLOW_AFTER`].
fn stalled(state: &PeerState) -> Option<Duration> {
    let waiting = state.oldest_age?;
    let span = state.taken_age.map_or(waiting, |taken| taken.min(waiting));
    (span >= SLOW_AFTER).then_some(span)
}

/// Name of a worker, which comes from the network.
pub(super) fn name(state: &PeerState) -> String {
    sanitize_to(&*state.worker, NAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(worker: &str, oldest: Option<u64>, taken: Option<u64>) -> PeerState {
        PeerState {
            connected: taken.is_some(),
            queued_bytes: 1_000,
            queued_messages: 3,
            spilled_bytes: 20,
            oldest_age: oldest.map(Duration::from_millis),
            taken_age: taken.map(Duration::from_millis),
            ..PeerState::example(worker)
        }
    }

    #[test]
    fn a_worker_without_waiting_events_is_not_slow() {
        let idle = state("idle", None, Some(90_000));
        let fresh = state("fresh", Some(1_900), Some(90_000));
        let busy = state("busy", Some(90_000), Some(100));
        assert_eq!(find(&[idle, fresh, busy], false), None);
    }

    #[test]
    fn the_worker_that_waits_longest_is_named_with_its_bytes() {
        let states = [state("a", Some(3_000), Some(9_000)), state("b\n", Some(5_000), Some(7_000))];
        let found = find(&states, true).unwrap();
        assert_eq!(found.kind, "slow_worker");
        assert_eq!(found.text, "worker b\\n reads nothing: 1000 bytes in memory and 20 on disk wait for it");
        let evidence = [
            "b\\n took its last byte 7.0 s ago",
            "3 events wait for it, 7 were sent",
            "a queue is full in memory and on disk: all workers wait",
            "1 more workers, for example a",
        ];
        assert_eq!(found.evidence, evidence);
    }

    #[test]
    fn a_worker_without_a_connection_is_named() {
        let found = find(&[state("gone", Some(4_000), None)], false).unwrap();
        assert_eq!((found.kind, &*found.evidence[0]), ("worker_away", "gone was needed 4.0 s ago"));
        assert!(found.help.contains("start worker gone"), "{found:?}");
    }
}
