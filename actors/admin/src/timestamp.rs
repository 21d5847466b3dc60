//! Timestamps in RFC 3339, in UTC with milliseconds. No I/O.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time, e.g. `2026-11-21T02:26:15.120Z`. A time before 1970 becomes 1970.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Returns year, month and day of a day counted from 1970, by Howard Hinnant's algorithm. Its years begin in March, so that a leap day is
/// the last day.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    (year + u64::from(month <= 2), month, day - first + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_times_are_formatted() {
        let shown = |ms| rfc3339(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(shown(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(shown(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(shown(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(shown(1_709_251_200_000), "2024-03-01T00:00:00.000Z");
        assert_eq!(shown(1_704_067_199_001), "2023-12-31T23:59:59.001Z");
        assert_eq!(shown(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }
}
