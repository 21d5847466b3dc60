//! Attempts in PostgreSQL: a partition for each day, dropped as a whole.

use orchestrator_queue_sqlite::Options;

use crate::tests::store::{Kind, SingleOperations as _, TestStore, feed_batch, group, packages, take};

const DAY: i64 = 86_400;

#[test]
fn days_of_attempts_are_dropped_once_enough_newer_ones_are_kept() {
    let mut s = TestStore::of(Kind::Postgres, Options::default());
    feed_batch(&mut s, "f1", 1, &packages(12));
    let days = |s: &TestStore| {
        s.texts("SELECT started / 86400 || ' ' || count(*) FROM attempt GROUP BY started / 86400")
    };
    for day in 100..103 {
        for n in 0..4 {
            let job = take(&mut s, day * DAY + n).expect("a job");
            group(&mut s, |s| s.delivered(job.handout));
            // The first attempt of a day may come before its partition.
            s.texts(&format!("SELECT keep_attempts({}, 1000)", day * DAY + 5));
        }
    }
    assert_eq!(days(&s), ["100 4", "101 4", "102 4"]);
    let partitions = s.texts("SELECT DISTINCT tableoid::regclass::text FROM attempt");
    assert_eq!(
        partitions,
        ["attempt_8640000", "attempt_8726400", "attempt_8812800"],
        "none is in the default partition"
    );
    for (most, left) in
        [(9, vec!["100 4", "101 4", "102 4"]), (8, vec!["101 4", "102 4"]), (0, vec!["102 4"])]
    {
        s.texts(&format!("SELECT keep_attempts({}, {most})", 102 * DAY + 5));
        assert_eq!(days(&s), left, "at least {most}, and the present day");
    }
}
