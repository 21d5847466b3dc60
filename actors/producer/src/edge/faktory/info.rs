//! What a server says of its queues and sets.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::resp::excerpt;
use crate::reading::Reading;

#[derive(Deserialize)]
struct Info {
    faktory: Faktory,
}

#[derive(Deserialize)]
struct Faktory {
    queues: BTreeMap<String, u64>,
    sets: Sets,
    total_processed: u64,
}

#[derive(Deserialize)]
struct Sets {
    dead: u64,
    retries: u64,
    scheduled: u64,
    working: u64,
}

/// Reads the JSON of the answer to `INFO`.
///
/// # Errors
/// It lacks what is needed; the text says what.
pub(super) fn parse(json: &[u8]) -> Result<Reading, String> {
    let Info { faktory } = serde_json::from_slice(json).map_err(|error| {
        let reason = excerpt(error.to_string());
        format!("its INFO cannot be read: {reason}: use a Faktory server 1.x")
    })?;
    let Faktory { queues, sets: Sets { dead, retries, scheduled, working }, total_processed } = faktory;
    Ok(Reading { queues, dead, retries, scheduled, working, processed: total_processed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_and_sets_are_read_and_the_rest_is_left() {
        let json = br#"{"now":"2026-11-21T00:00:00Z","faktory":{"queues":{"a":2,"b":0},"tasks":{},"total_failures":9,
            "total_processed":8,"sets":{"dead":1,"retries":2,"scheduled":3,"working":4}},"server":{"uptime":5}}"#;
        let queues = [("a".to_owned(), 2), ("b".to_owned(), 0)].into();
        let wanted = Reading { queues, dead: 1, retries: 2, scheduled: 3, working: 4, processed: 8 };
        assert_eq!(parse(json), Ok(wanted));
    }

    /// The decoder repeats a text that it did not want, however long.
    #[test]
    fn an_error_does_not_repeat_megabytes() {
        let json = format!("{{\"faktory\": \"{}\"}}", "x".repeat(3_000_000));
        let error = parse(json.as_bytes()).unwrap_err();
        assert!(error.len() < 400 && error.contains("bytes left out"), "{}", error.len());
    }

    #[test]
    fn what_would_be_guessed_at_is_an_error_that_names_it() {
        for (json, said) in [
            ("", "EOF"),
            ("{}", "faktory"),
            (r#"{"faktory":{"queues":{}}}"#, "sets"),
            (r#"{"faktory":{"queues":{},"sets":{"dead":1,"retries":2,"scheduled":3}}}"#, "working"),
            (r#"{"faktory":{"queues":{"a":-1},"sets":{}}}"#, "-1"),
        ] {
            let error = parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
