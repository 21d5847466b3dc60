//! Finds the worker that has not finished its last event, although nothing waits for it here (CONTRACT IO15).
//! Pure.

use std::time::Duration;

use super::{
    peer_state::PeerState,
    progress::{Progress, ReportsRead},
    slow_worker::{WorkerCause, further, help, name},
};

/// Age of the last read of reports beyond which it proves nothing: Redis may be away.
const READ_AGE_MAX: Duration = Duration::from_secs(10);
/// Time without a ping after which a worker counts as frozen; workers ping every two seconds.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// Worker that is silent longest since its last event. Only events count that were older than `idle` at the
/// last read of reports, and are not reported as finished. `read` is that read, with its age.
pub(super) fn find(
    states: &[PeerState],
    read: Option<(ReportsRead, Duration)>,
    idle: Duration,
) -> Option<WorkerCause> {
    let (ReportsRead { shared, .. }, read_age) = read.filter(|(_, age)| *age <= READ_AGE_MAX)?;
    let mut all: Vec<_> =
        states.iter().filter_map(|state| Some((overdue(state, idle + read_age)?, state))).collect();
    all.sort_by(|a, b| (b.0, &a.1.worker).cmp(&(a.0, &b.1.worker)));
    let (((age, event), first), others) = all.split_first()?;
    let worker = name(first);
    let reported = match first.progress.finished {
        Some(finished) => format!("the last one that it reported as finished is event {finished}"),
        None if states.iter().any(|state| state.progress.finished.is_some()) => {
            "it has reported none of this mapping as finished".to_owned()
        }
        None => "no worker has reported one of this mapping as finished".to_owned(),
    };
    let mut evidence = vec![
        format!("{} events were sent to {worker}; {reported}", first.events_out),
        match (first.connected, first.ping_age) {
            (false, _) => format!("{worker} is not connected"),
            (true, None) => format!("{worker} is connected and has sent no ping"),
            (true, Some(age)) => {
                format!("{worker} is connected; its last ping came {:.1} s ago", age.as_secs_f64())
            }
        },
    ];
    if shared {
        evidence.push(format!("other ingesters take part in the mapping: {worker} may wait for one of them"));
    }
    evidence.extend(further(others.iter().map(|(_, state)| *state)));
    let text =
        format!("worker {worker} has not finished event {event}, which it got {} s ago", age.as_secs());
    Some(WorkerCause { kind: "worker_idle", text, evidence, help: help(first) })
}

/// Age and number of the worker's last event, if that is unfinished and at least `idle` old, as far as its
/// reports were read.
pub(super) fn overdue(state: &PeerState, idle: Duration) -> Option<(Duration, u64)> {
    let Progress { assigned, queued, finished } = state.progress;
    let is_silent = !state.connected || state.ping_age.is_some_and(|age| age >= idle.max(SILENT_AFTER));
    // A worker collects its reports for up to a second, and sends them with the next event, however late that
    // comes.
    let may_collect = assigned > queued && !is_silent;
    let event = queued.filter(|_| finished < queued && !may_collect && state.queued_messages == 0)?;
    state.given_age.filter(|age| *age >= idle).map(|age| (age, event))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    /// A connected worker that got its last event `given` seconds ago.
    fn state(worker: &str, given: u64, [assigned, queued, finished]: [Option<u64>; 3]) -> PeerState {
        PeerState {
            taken_age: Some(Duration::ZERO),
            given_age: Some(Duration::from_secs(given)),
            ping_age: Some(Duration::from_millis(1_240)),
            progress: Progress { assigned, queued, finished },
            ..PeerState::example(worker)
        }
    }

    /// The reports were read one second ago.
    fn found(states: &[PeerState]) -> Option<WorkerCause> {
        found_after(states, Duration::from_secs(1), false)
    }

    fn found_after(states: &[PeerState], age: Duration, shared: bool) -> Option<WorkerCause> {
        find(states, Some((ReportsRead { began: Instant::now(), shared }, age)), IDLE)
    }

    #[test]
    fn a_worker_that_may_have_finished_its_events_is_not_named() {
        let hour = 3_600;
        let finished = state("finished", hour, [Some(9), Some(9), Some(9)]);
        let unused = state("unused", hour, [None, None, None]);
        // It reports event 9 with the next one at the latest.
        let collects = state("collects", hour, [Some(12), Some(9), Some(8)]);
        let recent = state("recent", 30, [Some(9), Some(9), None]);
        let slow = PeerState { queued_messages: 1, ..state("slow", hour, [Some(9), Some(9), None]) };
        assert_eq!(found(&[finished, unused, collects, recent, slow]), None);
    }

    #[test]
    fn a_frozen_or_lost_worker_holds_back_no_report() {
        let collects = state("w", 3_600, [Some(12), Some(9), Some(8)]);
        let frozen = PeerState { ping_age: Some(IDLE * 2), ..collects.clone() };
        let lost = PeerState { connected: false, ping_age: None, ..collects };
        for state in [frozen, lost] {
            let text = "worker w has not finished event 9, which it got 3600 s ago";
            assert_eq!(found(&[state]).map(|cause| cause.text).as_deref(), Some(text));
        }
    }

    #[test]
    fn without_a_recent_read_of_the_reports_nobody_is_named() {
        let states = [state("w", 3_600, [Some(9), Some(9), None])];
        assert!(found_after(&states, READ_AGE_MAX, false).is_some());
        assert_eq!(found_after(&states, READ_AGE_MAX + Duration::from_millis(1), false), None);
        assert_eq!(find(&states, None, IDLE), None);
    }

    #[test]
    fn the_worker_that_got_its_event_first_is_named_with_its_reports() {
        let states = [
            state("a", 35, [Some(18), Some(18), Some(15)]),
            state("b\n", 41, [Some(17), Some(17), Some(12)]),
            PeerState { connected: false, ..state("c", 31, [Some(9), Some(9), None]) },
        ];
        let cause = found_after(&states, Duration::ZERO, true).unwrap();
        assert_eq!(cause.kind, "worker_idle");
        assert_eq!(cause.text, "worker b\\n has not finished event 17, which it got 41 s ago");
        let evidence = [
            "7 events were sent to b\\n; the last one that it reported as finished is event 12",
            "b\\n is connected; its last ping came 1.2 s ago",
            "other ingesters take part in the mapping: b\\n may wait for one of them",
            "2 more workers, for example a, c",
        ];
        assert_eq!(cause.evidence, evidence);
        assert_eq!(
            cause.help,
            "orchestrator ingester status; restart worker b\\n, then begin the scan again, with a new mapping"
        );
    }

    #[test]
    fn a_worker_without_a_report_is_named_also_if_nobody_reports() {
        let silent = PeerState { connected: false, ..state("silent", 40, [Some(0), Some(0), None]) };
        let cause = found(std::slice::from_ref(&silent)).unwrap();
        let evidence = [
            "7 events were sent to silent; no worker has reported one of this mapping as finished",
            "silent is not connected",
        ];
        assert_eq!(cause.evidence, evidence);
        assert!(cause.help.contains("start worker silent"), "{cause:?}");
        let cause = found(&[silent, state("other", 3_600, [Some(1), Some(1), Some(1)])]).unwrap();
        assert!(
            cause.evidence[0].ends_with("; it has reported none of this mapping as finished"),
            "{cause:?}"
        );
    }
}
