//! Times of options, and the text of `queue show`.

use jiff::{SignedDuration, Timestamp};
use orchestrator_subsystem::columns::align;
use serde_json::Value;

use super::table::{ATTEMPT_COLUMNS, Object, cell, table, timestamp};

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

/// Formats the answer to `show`, an object. A missing field counts as null.
pub(super) fn show(answer: &Value) -> String {
    let mut rows = vec![pair("path", cell(&answer["attr_path"]))];
    rows.extend(elements(&answer["waiting"]).map(|group| pair("waiting", waiting(group))));
    rows.extend(
        Some(&answer["in_flight"]).filter(|job| job.is_object()).map(|job| pair("in flight", in_flight(job))),
    );
    if rows.len() == 1 {
        rows.push(pair("waiting", "no".to_owned()));
    }
    let attempts: Vec<Object> = elements(&answer["attempts"]).filter_map(without_path).collect();
    align(&rows, &[]) + &table(&attempts, &ATTEMPT_COLUMNS, "no attempt is recorded\n")
}

fn pair(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn waiting(group: &Value) -> String {
    let state = match (group["position"].as_u64(), group["held_until"].as_i64()) {
        (Some(position), _) => format!("position {position}"),
        (None, Some(until)) => format!("held until {}", timestamp(until)),
        (None, None) => "limited: too many such jobs are in flight,".to_owned(),
    };
    let (fetcher, run) = (cell(&group["fetcher"]), cell(&group["run_started"]));
    format!("{state} in run {run} of {fetcher}: {}", cell(&group["payload"]))
}

fn in_flight(job: &Value) -> String {
    let since = timestamp(job["started"].as_i64().unwrap_or(0));
    let until = timestamp(job["held_until"].as_i64().unwrap_or(0));
    let connection = match &job["connection"] {
        Value::Null => "unknown".to_owned(),
        connection => cell(connection),
    };
    format!("since {since} on connection {connection}, held until {until}")
}

/// Returns an attempt without its path; None if it is not an object.
fn without_path(attempt: &Value) -> Option<Object> {
    let mut attempt = attempt.as_object()?.clone();
    attempt.remove("attr_path");
    Some(attempt)
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
                { "fetcher": "one", "run_started": 3, "payload": "1 2", "position": 7, "held_until": null },
                { "fetcher": "two", "run_started": 4, "payload": "x", "position": null, "held_until": 60 },
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
        assert_eq!(show(&answer), expected);
        let nothing = json!({ "attr_path": "c", "waiting": [], "in_flight": null, "attempts": [] });
        assert_eq!(show(&nothing), "path     c\nwaiting  no\nno attempt is recorded\n");
    }

    #[test]
    fn show_accepts_any_answer() {
        assert_eq!(show(&json!({})), "path     -\nwaiting  no\nno attempt is recorded\n");
        let odd = show(&json!({ "waiting": [7, {}], "in_flight": {}, "attempts": ["x", {}] }));
        assert_eq!(odd.lines().filter(|line| line.starts_with("waiting    limited")).count(), 2, "{odd}");
    }
}
