//! Timestamps in RFC 3339, in UTC with milliseconds, and times in seconds. No I/O.

use std::time::Duration;

use jiff::Timestamp;

/// Formats a time in milliseconds since 1970, e.g. `2026-11-21T02:26:15.120Z`. A time that no calendar has
/// becomes an empty text.
pub fn rfc3339(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| format!("{at:.3}"))
}

pub(crate) fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_formatted() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(rfc3339(1_709_251_200_000), "2024-03-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_704_067_199_001), "2023-12-31T23:59:59.001Z");
        assert_eq!(rfc3339(u64::MAX), "");
        assert_eq!(rfc3339(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }
}
