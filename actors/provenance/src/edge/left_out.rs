//! What is left out is logged, but not for each transaction: a load that names what is not there would fill the log.

use std::time::{Duration, Instant};

use crate::store::Written;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// Rows left out since the last line.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    rows: Written,
    told: Option<Instant>,
}

impl LeftOut {
    /// Adds those of a transaction; gives what is to be logged at `now`, if it is time.
    pub(super) fn add(&mut self, written: Written, now: Instant) -> Option<Written> {
        self.rows.unregistered += written.unregistered;
        self.rows.url_taken += written.url_taken;
        self.rows.origin_unknown += written.origin_unknown;
        let due = self.told.is_none_or(|told| now.duration_since(told) >= EVERY);
        if self.rows == Written::default() || !due {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_next_ones_together() {
        let (mut left_out, begun) = (LeftOut::default(), Instant::now());
        let one = Written { unregistered: 1, url_taken: 2, origin_unknown: 3 };
        assert_eq!(left_out.add(Written::default(), begun), None);
        assert_eq!(left_out.add(one, begun), Some(one));
        assert_eq!(left_out.add(one, begun + EVERY / 2), None);
        assert_eq!(left_out.add(one, begun + EVERY / 2), None);
        let both = Written { unregistered: 2, url_taken: 4, origin_unknown: 6 };
        assert_eq!(left_out.add(Written::default(), begun + EVERY), Some(both));
        assert_eq!(left_out.add(Written::default(), begun + 3 * EVERY), None);
    }
}
