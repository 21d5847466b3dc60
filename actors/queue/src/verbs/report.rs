//! Times of options, and the text of `queue show`.

use jiff::{SignedDuration, Timestamp};
use orchestrator_subsystem::{columns::align, text};

use super::{AttemptRow, InFlightJob, PathReport, WaitingRow};

/// Parses the time of an option: unix seconds, a time, or a duration before now.
pub(super) fn time(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_second());
    }
    let ago = text.parse::<SignedDuration>();
    ago.map(|ago| Timestamp::now().as_second().saturating_sub(ago.as_secs())).map_err(|_| {
        "expected a duration like 24h, a time like 2026-11-23T08:00:00Z, or unix seconds".to_owned()
    })
}

/// Formats the answer to `show`.
pub(super) fn show(report: &PathReport) -> String {
    let mut rows = vec![pair("path", report.attr_path.clone())];
    rows.extend(report.waiting.iter().map(|group| pair("waiting", waiting(group))));
    rows.extend(report.in_flight.iter().map(|job| pair("in flight", in_flight(job))));
    if rows.len() == 1 {
        rows.push(pair("waiting", "no".to_owned()));
    }
    let without_path = |attempt: &AttemptRow| AttemptRow { attr_path: None, ..attempt.clone() };
    let attempts: Vec<_> = report.attempts.iter().map(without_path).collect();
    align(&rows, &[]) + &text::of(&attempts, "no attempt is recorded\n")
}

fn pair(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

fn waiting(group: &WaitingRow) -> String {
    let state = match (group.position, group.held_until) {
        (Some(position), _) => format!("position {position}"),
        (None, Some(until)) => format!("held until {}", text::time_of(until)),
        (None, None) => "limited: too many such jobs are in flight,".to_owned(),
    };
    let payload = text::cell(&group.payload.as_str().into(), false);
    format!("{state} in run {} of {}: {payload}", group.run_started, group.fetcher)
}

fn in_flight(job: &InFlightJob) -> String {
    let [since, until] = [job.started, job.held_until].map(text::time_of);
    let connection = job.connection.as_deref().unwrap_or("unknown");
    format!("since {since} on connection {connection}, held until {until}")
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
