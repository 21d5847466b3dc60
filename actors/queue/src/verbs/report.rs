//! Times of options, and the text of `queue show`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use orchestrator_queue_rules::storage::{Adopted, JobState, ListedRow, POSITION_MAX};
use orchestrator_subsystem::{columns::align, parse_duration, text};

use super::{AttemptRow, BumpedAll, InFlightJob, PathReport, RequeuedAll, WaitingRow};

/// Parses the state of jobs.
pub(super) fn job_state() -> impl TypedValueParser<Value = JobState> {
    let states = [
        PossibleValue::new("failed").help("The last attempt ended with an exit code other than 0"),
        PossibleValue::new("in-flight")
            .help("No worker reported the end of the last attempt, however long ago it began"),
    ];
    PossibleValuesParser::new(states).map(|state| match state.as_str() {
        "failed" => JobState::Failed,
        _ => JobState::InFlight,
    })
}

/// Parses the time of an option: unix seconds, a time, or a duration before now.
pub(super) fn time(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_second());
    }
    parse_duration(text).map(|ago| Timestamp::now().as_second().saturating_sub(ago.as_secs())).map_err(|_| {
        "expected a duration like 24h, a time like 2026-11-23T08:00:00Z, or unix seconds".to_owned()
    })
}

/// Formats the answer to `bump-all`.
pub(super) fn bumped(answer: &BumpedAll) -> String {
    let mut text: String = answer.bumped.iter().map(|attr_path| format!("{attr_path} is next\n")).collect();
    if answer.full {
        text += "no more jobs can be bumped: wait until some of them are handed out\n";
    } else if answer.bumped.is_empty() {
        text += "no waiting job matches\n";
    }
    text
}

/// Formats the answer to `requeue-all`.
pub(super) fn requeued(answer: RequeuedAll) -> String {
    match answer {
        RequeuedAll { requeued: 0, finished: true } => {
            "nothing to requeue: no job of this filter was handed out\n".to_owned()
        }
        RequeuedAll { requeued, finished: true } => format!("{requeued} requeued\n"),
        RequeuedAll { requeued, .. } => format!("{requeued} requeued; others follow\n"),
    }
}

/// Formats the answer to `adopt`.
pub(super) fn adopted(Adopted { fetcher, from, to }: &Adopted) -> String {
    match from {
        Some(from) => format!("{fetcher} moved from {from} to {to}: remove its files at {from}\n"),
        None => format!("{fetcher} belonged to no instance any more: {to} reads its files\n"),
    }
}

/// Formats the answer to `show`.
pub(super) fn show(report: &PathReport) -> String {
    let mut rows = vec![pair("path", report.attr_path.clone())];
    rows.extend(report.listed.iter().map(|row| pair("listed", listed(row))));
    rows.extend(report.waiting.iter().map(|group| pair("waiting", waiting(group))));
    rows.extend(report.in_flight.iter().map(|job| pair("in flight", in_flight(job))));
    if report.waiting.is_empty() && report.in_flight.is_none() {
        rows.push(pair("waiting", "no".to_owned()));
    }
    let without_path = |attempt: &AttemptRow| AttemptRow { attr_path: None, ..attempt.clone() };
    let attempts: Vec<_> = report.attempts.iter().map(without_path).collect();
    align(&rows, &[]) + &text::of(&attempts, "no attempt is recorded\n")
}

fn pair(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

fn listed(row: &ListedRow) -> String {
    let added = row.added.map_or_else(String::new, |time| format!(" since {}", text::time_of(time)));
    let state = if row.handed_out { "handed out" } else { "not handed out" };
    format!("in run {} of {}{added}, {state}", row.run.started, row.run.fetcher)
}

fn waiting(group: &WaitingRow) -> String {
    let state = match (group.position, group.held_until) {
        (Some(position), _) => place(position),
        (None, Some(until)) => format!("held until {}", text::time_of(until)),
        (None, None) => "limited: too many such jobs are in flight,".to_owned(),
    };
    let payload = text::cell(&group.payload.as_str().into());
    format!("{state} in run {} of {}: {payload}", group.run_started, group.fetcher)
}

/// Place in the order of hand-outs.
pub(crate) fn place(position: u64) -> String {
    if position > POSITION_MAX {
        format!("position above {POSITION_MAX}")
    } else {
        format!("position {position}")
    }
}

fn in_flight(job: &InFlightJob) -> String {
    let [since, until] = [job.started, job.held_until].map(text::time_of);
    let connection = job.connection.as_deref().unwrap_or("unknown");
    let instance = job.instance.as_ref().map(|name| format!(" of instance {name}")).unwrap_or_default();
    format!("since {since} on connection {connection}{instance}, held until {until}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_is_a_number_a_time_or_a_duration_ago() {
        assert_eq!(time("1700000000"), Ok(1_700_000_000));
        assert_eq!(time("-5"), Ok(-5));
        assert_eq!(time("2023-11-14T22:13:20Z"), Ok(1_700_000_000));
        let hours_ago = (Timestamp::now().as_second() - time("2h").unwrap()) / 60;
        assert!((119..=121).contains(&hours_ago), "{hours_ago}");
        for wrong in ["", "yesterday", "2x"] {
            assert!(time(wrong).unwrap_err().contains("24h"), "{wrong}");
        }
    }

    #[test]
    fn show_has_a_line_for_each_state_and_a_table_of_attempts() {
        let answer = json!({
            "attr_path": "a.b",
            "listed": [
                { "fetcher": "one", "run_started": 3, "added": 0, "handed_out": false },
                { "fetcher": "two", "run_started": 2, "added": null, "handed_out": true },
            ],
            "waiting": [
                { "fetcher": "one", "run_started": 3, "payload": "1 2", "position": 7, "held_until": null, "limited": false },
                { "fetcher": "two", "run_started": 4, "payload": "x", "position": null, "held_until": 60, "limited": false },
            ],
            "in_flight": { "started": 0, "held_until": 60, "fetcher": "one", "connection": "5 (pid 9 uid 1)" },
            "attempts": [
                { "attr_path": "a.b", "started": 0, "finished": null, "seconds": null, "exit_code": null,
                  "fetcher": "one", "connection": "5 (pid 9 uid 1)" },
            ],
        });
        let expected = "path       a.b\n\
            listed     in run 3 of one since 1970-01-01T00:00:00Z, not handed out\n\
            listed     in run 2 of two, handed out\n\
            waiting    position 7 in run 3 of one: 1 2\n\
            waiting    held until 1970-01-01T00:01:00Z in run 4 of two: x\n\
            in flight  since 1970-01-01T00:00:00Z on connection 5 (pid 9 uid 1), held until 1970-01-01T00:01:00Z\n\
            EXIT CODE  STARTED               SECONDS  FETCHER  CONNECTION       FINISHED\n\
            -          1970-01-01T00:00:00Z  -        one      5 (pid 9 uid 1)  -\n";
        assert_eq!(show(&serde_json::from_value(answer).unwrap()), expected);
        let nothing = json!({ "attr_path": "c", "waiting": [], "in_flight": null, "attempts": [] });
        assert_eq!(
            show(&serde_json::from_value(nothing).unwrap()),
            "path     c\nwaiting  no\nno attempt is recorded\n"
        );
    }
}
