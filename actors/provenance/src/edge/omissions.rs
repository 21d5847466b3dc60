//! Summary log of left-out rows. One line for each transaction could fill the log.

use std::time::{Duration, Instant};

use crate::store::OmittedRows;

/// Minimum time between two log lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Rows left out since the last line.
#[derive(Debug, Default)]
pub(super) struct OmissionLog {
    rows: OmittedRows,
    last_logged: Option<Instant>,
}

impl OmissionLog {
    /// Adds the rows of a transaction; returns those to log if a line is due at `now`.
    pub(super) fn add(&mut self, omitted: OmittedRows, now: Instant) -> Option<OmittedRows> {
        self.rows.unregistered += omitted.unregistered;
        self.rows.url_taken += omitted.url_taken;
        self.rows.origin_unknown += omitted.origin_unknown;
        let due = self.last_logged.is_none_or(|last_logged| now.duration_since(last_logged) >= INTERVAL);
        if self.rows == OmittedRows::default() || !due {
            return None;
        }
        self.last_logged = Some(now);
        Some(std::mem::take(&mut self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rows_are_logged_at_once_and_later_ones_together() {
        let (mut log, started) = (OmissionLog::default(), Instant::now());
        let one = OmittedRows { unregistered: 1, url_taken: 2, origin_unknown: 3 };
        assert_eq!(log.add(OmittedRows::default(), started), None);
        assert_eq!(log.add(one, started), Some(one));
        assert_eq!(log.add(one, started + INTERVAL / 2), None);
        assert_eq!(log.add(one, started + INTERVAL / 2), None);
        let both = OmittedRows { unregistered: 2, url_taken: 4, origin_unknown: 6 };
        assert_eq!(log.add(OmittedRows::default(), started + INTERVAL), Some(both));
        assert_eq!(log.add(OmittedRows::default(), started + 3 * INTERVAL), None);
    }
}
