//! The rule for jobs that wait while nobody works (README.md, "No worker").
//!
//! Called only while a job can be handed out. A worker asks again within seconds or minutes, unless it works
//! on a job: it then asks at the job's end.

/// Time without a request after which workers count as away, seconds: five times the pause of
/// nixpkgs-update's workers after `NOJOBS`.
pub const AWAY_AFTER_SECS: u64 = 300;

/// Times of the log that tell whether somebody works. Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogTimes {
    /// Number of jobs in flight, however long ago they were handed out.
    pub in_flight: u64,
    /// Last hand-out of a job in flight.
    pub newest_in_flight: Option<i64>,
    /// Longest duration of the jobs that ended in the last day, seconds.
    pub longest: Option<i64>,
    /// Last hand-out.
    pub last_handout: Option<i64>,
    /// Last DONE.
    pub last_done: Option<i64>,
}

impl LogTimes {
    /// Earliest end of a job that counts for [`Self::longest`].
    pub fn day_before(now: i64) -> i64 {
        now.saturating_sub(86_400)
    }

    /// Returns true if a worker was active a short time ago, or may be working on a job. Activity before a
    /// restart and at another instance counts. A job counts as worked on for twice the longest duration of
    /// the last day, and as long as its hold if none ended.
    pub fn shows_work(&self, now: i64, hold_secs: i64) -> bool {
        let away_after = AWAY_AFTER_SECS.cast_signed();
        // Clocks of machines differ a little; one that was set back by more proves nothing.
        let is_near = |at: Option<i64>| at.is_some_and(|at| now.abs_diff(at) < AWAY_AFTER_SECS);
        let works_for =
            self.longest.map_or(hold_secs, |secs| secs.saturating_mul(2).max(away_after).min(hold_secs));
        // A clock that was set back extends holds, too.
        let may_work = self.newest_in_flight.is_some_and(|at| now.saturating_sub(at) < works_for);
        is_near(self.last_handout) || is_near(self.last_done) || may_work
    }
}

/// Jobs that wait while nobody works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unserved {
    /// Number of jobs; [`HeldJobs::COUNTED_MAX`](crate::storage::HeldJobs::COUNTED_MAX) stands for at least
    /// as many.
    pub jobs: u64,
    /// Those whose limits have room.
    pub free: u64,
    /// Number of jobs in flight.
    pub in_flight: u64,
    /// Time of the last request, unix seconds; None if there was none since the start.
    pub last_request: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;
    const HOLD: i64 = 43_200;

    #[test]
    fn work_shows_while_a_job_may_be_worked_on_and_a_short_time_after_a_request() {
        let ago = |secs: i64| Some(NOW - secs);
        let shows = |times: LogTimes| times.shows_work(NOW, HOLD);
        let none = LogTimes::default();
        assert!(!shows(none));
        // A restarted program knows what its predecessor has recorded.
        assert!(shows(LogTimes { last_handout: ago(299), ..none }));
        assert!(shows(LogTimes { last_done: ago(299), ..none }));
        assert!(!shows(LogTimes { last_handout: ago(300), last_done: ago(300), ..none }));
        // The workers are busy with long jobs: for how long is known once some have ended.
        let busy =
            |secs| LogTimes { in_flight: 1, newest_in_flight: ago(secs), last_handout: ago(secs), ..none };
        assert!(shows(busy(HOLD - 1)));
        assert!(!shows(busy(HOLD)));
        let with = |secs, longest| LogTimes { longest: Some(longest), ..busy(secs) };
        assert!(shows(with(7_199, 3_600)));
        assert!(!shows(with(7_200, 3_600)));
        assert!(!shows(with(300, 1)), "jobs of a second");
        assert!(shows(with(HOLD - 1, HOLD)), "twice the longest, and no longer than the hold");
        assert!(!shows(with(HOLD, HOLD)));
        // The clock was set back: a hold is extended, and a former request proves nothing.
        assert!(shows(busy(-600)));
        assert!(!shows(LogTimes { last_handout: ago(-600), last_done: ago(-600), ..none }));
        assert!(shows(LogTimes { last_handout: ago(-2), ..none }), "the clock of another machine");
        assert!(shows(LogTimes { longest: Some(i64::MAX), ..busy(HOLD - 1) }));
    }
}
