//! Tests of the rule that a disruption explains each redelivery.

use std::time::{Duration, Instant};

use super::super::{Disruption, Handout, LoadRecord, Seen};

/// Counts the redelivered jobs of one line. A hand-out is its instance and the times of its request and
/// answer, in seconds; a disruption is its instance and the times of its begin and end.
fn redelivered(handouts: &[(usize, u64, u64)], disruptions: &[(usize, u64, u64)]) -> usize {
    let zero = Instant::now();
    let at = |seconds| zero + Duration::from_secs(seconds);
    let handout = |&(instance, sent, read): &(usize, u64, u64)| Handout {
        worker: instance,
        instance,
        fetcher: "fetcher0".to_owned(),
        run: 1,
        attr: "pkgs.one".to_owned(),
        sent: at(sent),
        read: at(read),
        next_read: Some(at(read + 1)),
        done_sent: None,
    };
    let disruption =
        |&(instance, from, to): &(usize, u64, u64)| Disruption { instance, from: at(from), to: at(to) };
    let handouts = handouts.iter().map(handout).collect();
    let record = LoadRecord {
        present: Default::default(),
        ever: Default::default(),
        seen: Seen { handouts, ..Seen::default() },
        disruptions: disruptions.iter().map(disruption).collect(),
    };
    record.redeliveries_are_explained()
}

#[test]
fn an_instance_may_answer_after_its_job_was_handed_out_again() {
    // Instance 2 was suspended after its commit; instance 0 handed the job out when the lease had ended.
    assert_eq!(redelivered(&[(2, 25, 44), (0, 40, 41)], &[(2, 26, 44)]), 1);
}

#[test]
fn a_kill_explains_the_job_that_was_under_way() {
    assert_eq!(redelivered(&[(0, 10, 11), (1, 20, 21)], &[(0, 12, 13)]), 1);
}

#[test]
#[should_panic(expected = "redelivered without a kill or panic")]
fn a_disruption_of_the_last_instance_explains_nothing() {
    redelivered(&[(0, 10, 11), (1, 20, 21)], &[(1, 20, 22)]);
}

#[test]
#[should_panic(expected = "redelivered without a kill or panic")]
fn overlapping_answers_are_not_explained_by_themselves() {
    redelivered(&[(0, 10, 20), (1, 11, 19)], &[]);
}

#[test]
#[should_panic(expected = "redelivered without a kill or panic")]
fn one_disruption_explains_one_job_of_a_worker() {
    redelivered(&[(0, 10, 11), (0, 12, 13), (1, 20, 21)], &[(0, 11, 12)]);
}
