//! End of a pause, as operators write it.

use std::str::FromStr;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan, Zoned, civil};
use orchestrator_supervise::PauseSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// End of a pause: a duration from now (`30m`), a time of day or a date and time in the instance's time zone
/// (`18:00`, `2026-11-26 18:00`), or an instant (`2026-11-26T18:00:00Z`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Until {
    text: String,
    at: Timestamp,
}

impl Until {
    /// Without an end, the pause lasts until it is resumed.
    pub fn pause(until: Option<&Self>) -> PauseSpan {
        PauseSpan { until_ms: until.and_then(|until| u64::try_from(until.at.as_millisecond()).ok()) }
    }

    /// Reads `text`. Durations count from `now`, and times without an offset are in its time zone.
    fn parse(text: &str, now: &Zoned) -> Result<Timestamp, String> {
        let zone = || now.time_zone().clone();
        let text = text.trim();
        let at = if let Ok(at) = text.parse::<Timestamp>() {
            Ok(at)
        } else if let Ok(at) = text.parse::<civil::DateTime>() {
            at.to_zoned(zone()).map(|at| at.timestamp())
        } else if let Ok(at) = text.parse::<civil::Time>() {
            let is_past = at <= now.time();
            let day = if is_past { now.date().saturating_add(1.day()) } else { now.date() };
            day.to_datetime(at).to_zoned(zone()).map(|at| at.timestamp())
        } else if let Ok(span) = parse_duration(text) {
            now.timestamp().checked_add(span)
        } else {
            return Err(
                "write a duration (30m, 1d), a time of day (18:00), or a date and time (2026-11-26 18:00)"
                    .to_owned(),
            );
        };
        let at = at.map_err(|error| error.to_string())?;
        if at <= now.timestamp() { Err("that time is over".to_owned()) } else { Ok(at) }
    }
}

/// Parses a duration of an option, such as `30m`, `1h 30m`, `1d` (24 hours) or `2w`.
///
/// # Errors
/// It is none; the text is that of the parser.
pub fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let span = text.trim().parse::<Span>();
    span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .map_err(|error| error.to_string())
}

/// Name of the time zone in which ends of pauses are read, such as `Europe/Berlin`, `UTC` or `UTC+02`.
pub fn time_zone() -> String {
    let now = Zoned::now();
    match now.time_zone().iana_name() {
        Some("Etc/UTC") => "UTC".to_owned(),
        Some(name) if !now.time_zone().is_unknown() => name.to_owned(),
        _ if now.offset().is_zero() => "UTC".to_owned(),
        _ => format!("UTC{}", now.offset()),
    }
}

/// ` until` and the end of a pause, to the second; empty without an end.
pub fn until_text(until_ms: Option<u64>) -> String {
    let at = until_ms.and_then(|at| Timestamp::from_millisecond(i64::try_from(at).ok()?).ok());
    at.map_or_else(String::new, |at| format!(" until {at:.0}"))
}

impl TryFrom<String> for Until {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The key is in no message of serde.
        text.parse().map_err(|error| format!("until = {text:?}: {error}"))
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { at: Self::parse(text, &Zoned::now())?, text: text.to_owned() })
    }
}

impl From<Until> for String {
    fn from(until: Until) -> Self {
        until.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_times_of_day_dates_and_instants_are_read() {
        let now: Zoned = "2026-11-26T17:30+01:00[Etc/GMT-1]".parse().expect("a time");
        let read = |text: &str| Until::parse(text, &now).map(|at| format!("{at:.0}"));
        for (text, expected) in [
            ("30m", "2026-11-26T17:00:00Z"),
            ("1h 30m", "2026-11-26T18:00:00Z"),
            ("1d", "2026-11-27T16:30:00Z"),
            ("2w", "2026-12-10T16:30:00Z"),
            ("18:00", "2026-11-26T17:00:00Z"),
            ("17:30", "2026-11-27T16:30:00Z"),
            (" 08:15:30 ", "2026-11-27T07:15:30Z"),
            ("2026-11-27 08:00", "2026-11-27T07:00:00Z"),
            ("2026-11-27", "2026-11-26T23:00:00Z"),
            ("2026-11-26T18:00:00Z", "2026-11-26T18:00:00Z"),
            ("2026-11-26T20:00:00+02:00", "2026-11-26T18:00:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["-5m", "0s", "2026-11-26 17:30", "2026-11-26T16:29:59Z"] {
            assert_eq!(read(text), Err("that time is over".to_owned()), "{text}");
        }
        for text in ["", "soon", "30", "25:00", "2026-13-01"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
