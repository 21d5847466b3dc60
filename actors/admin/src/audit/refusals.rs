//! Refused requests of each caller: the first ones are recorded, the others counted. No I/O.

use std::collections::HashMap;

use super::record::Record;
use crate::timestamp::rfc3339;

/// Refusals of a caller that are recorded in a period.
pub(super) const RECORDED_MAX: u32 = 10;
/// Length of a period, in milliseconds.
pub(super) const PERIOD_MS: u64 = 10 * 60 * 1_000;

/// Refusals by caller. Callers have names of the tokens file, so their number is limited.
#[derive(Debug, Default)]
pub(super) struct Refusals(HashMap<String, Period>);

/// Refusals of a caller since its first one.
#[derive(Debug)]
struct Period {
    since_ms: u64,
    recorded: u32,
    omitted: u64,
    /// The last one that is not recorded.
    last: Option<Record>,
}

impl Refusals {
    /// Counts a refusal of `who` and returns true if it is to be recorded. Pass it to [`Refusals::omit`]
    /// otherwise, also if it cannot be written.
    pub(super) fn admit(&mut self, who: &str, now_ms: u64) -> bool {
        let first = Period { since_ms: now_ms, recorded: 0, omitted: 0, last: None };
        let period = self.0.entry(who.to_owned()).or_insert(first);
        let is_admitted = period.recorded < RECORDED_MAX;
        period.recorded += u32::from(is_admitted);
        is_admitted
    }

    /// Counts `record` as not recorded.
    pub(super) fn omit(&mut self, record: Record) {
        if let Some(period) = self.0.get_mut(&record.who) {
            period.omitted += 1;
            period.last = Some(record);
        }
    }

    /// Ends the periods that are over at `now_ms`. Returns a record for each one with omitted refusals: the
    /// last of them, with their number.
    pub(super) fn end_periods(&mut self, now_ms: u64) -> Vec<Record> {
        let over = self.0.extract_if(|_, period| now_ms.saturating_sub(period.since_ms) >= PERIOD_MS);
        over.filter_map(|(_, Period { since_ms, omitted, last, .. })| {
            let last = last?;
            let since = rfc3339(since_ms);
            let outcome =
                format!("{}; not recorded since {since}: {omitted}, this is the last", last.outcome);
            Some(Record { outcome, ..last })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::tests::record;

    #[test]
    fn the_first_refusals_of_each_caller_are_recorded_and_the_others_counted() {
        let mut refusals = Refusals::default();
        let refused = |who: &str, path: &str| Record {
            who: who.to_owned(),
            path: path.to_owned(),
            outcome: "forbidden: x".to_owned(),
            ..record("", None)
        };
        for number in 0..50 {
            let is_recorded = refusals.admit("eve", 1_000 + number);
            assert_eq!(is_recorded, number < 10, "{number}");
            if !is_recorded {
                refusals.omit(refused("eve", &number.to_string()));
            }
        }
        assert!(refusals.admit("ann", 1_050), "another caller has its own limit");
        assert!(refusals.end_periods(1_000 + PERIOD_MS - 1).is_empty());
        let counts = refusals.end_periods(1_000 + PERIOD_MS);
        let [count] = counts.as_slice() else { panic!("{counts:?}") };
        assert_eq!((count.who.as_str(), count.path.as_str()), ("eve", "49"));
        assert_eq!(
            count.outcome,
            "forbidden: x; not recorded since 1970-01-01T00:00:01.000Z: 40, this is the last"
        );
        assert!(refusals.admit("eve", 1_000 + PERIOD_MS), "a new period");
        assert!(refusals.end_periods(u64::MAX).is_empty(), "nothing was omitted");
    }
}
