//! Answers of the console as JSON, with fields that the answers of the store do not have.

use serde_json::{Value, json};

use crate::storage::{Attempt, AttrReport, Counts, WaitingGroup};

pub(super) fn counts(counts: &Counts, paused: bool) -> Value {
    json!({
        "rows": counts.rows,
        "ready": counts.ready,
        "held": counts.held,
        "logged": counts.logged,
        "in_flight": counts.in_flight,
        "paused": paused,
    })
}

pub(super) fn attr(attr_path: &str, found: AttrReport) -> Value {
    let held_until = found.in_flight.as_ref().map(|(_, until)| *until);
    let waiting = |group: WaitingGroup| {
        json!({
            "fetcher": group.run.fetcher,
            "run_started": group.run.started,
            "payload": group.payload,
            "position": group.position,
            // A path whose hold is over has a position although it is in flight.
            "held_until": held_until.filter(|_| group.position.is_none()),
            "limited": group.is_limited,
        })
    };
    json!({
        "attr_path": attr_path,
        "waiting": found.waiting.into_iter().map(waiting).collect::<Value>(),
        "in_flight": found.in_flight.map(|(job, until)| json!({
            "started": job.started,
            "held_until": until,
            "fetcher": job.fetcher,
            "connection": job.connection,
        })),
        "attempts": attempts(found.attempts),
    })
}

pub(super) fn attempts(attempts: Vec<Attempt>) -> Value {
    let attempt = |attempt: Attempt| {
        json!({
            "attr_path": attempt.attr_path,
            "started": attempt.started,
            "finished": attempt.finished,
            "seconds": attempt.finished.map(|finished| finished.saturating_sub(attempt.started)),
            "exit_code": attempt.exit_code,
            "fetcher": attempt.fetcher,
            "connection": attempt.connection,
        })
    };
    attempts.into_iter().map(attempt).collect()
}

pub(super) fn in_flight(jobs: Vec<Attempt>, now: i64) -> Value {
    let job = |job: Attempt| {
        json!({
            "attr_path": job.attr_path,
            "started": job.started,
            "seconds": now.saturating_sub(job.started),
            "fetcher": job.fetcher,
            "connection": job.connection,
        })
    };
    jobs.into_iter().map(job).collect()
}
