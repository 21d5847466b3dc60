//! Operations that the random sequences do not cover.

use std::time::Instant;

use orchestrator_queue_rules::storage::{
    Batch, Bumped, Deletion, HandoutId, Operation, Outcome, RunId, UNSENT_BYTES_MAX, Upsert,
};

use orchestrator_queue_sqlite::Options;

use crate::tests::store::*;

#[test]
fn a_slice_ends_at_its_deadline() {
    for mut s in TestStore::each(Options::default()) {
        let run = RunId::new("f1", 1);
        let batch = packages(1_000);
        assert_eq!(group(&mut s, |s| s.upsert_run(&run, false)), Upsert::Done);
        let reached = group(&mut s, |s| s.enqueue(&run, &batch, 0, Some(Instant::now())));
        assert!((1..1_000).contains(&reached), "took {reached}");
        let mut reached = reached;
        while reached < batch.len() {
            reached = group(&mut s, |s| s.enqueue(&run, &batch, reached, Some(Instant::now())));
        }
        assert_eq!(s.number("SELECT count(*) FROM queue"), 1_000);
    }
}

#[test]
fn operations_without_a_transaction_fail() {
    for mut s in TestStore::each(Options::default()) {
        feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
        let error = s.dequeue(10, "1").unwrap_err();
        let action = match s.kind {
            Kind::Sqlite => "dequeuing",
            Kind::Postgres => "handing out jobs",
        };
        assert!(error.to_string().contains(action), "{error}");
        assert_eq!(next_attr(&mut s, 10).as_deref(), Some("alpha"));
    }
}

#[test]
fn hand_out_ids_are_never_reused() {
    for mut s in TestStore::each(Options::default()) {
        feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
        let old = take(&mut s, 20).unwrap();
        assert_eq!(s.crash(), 1);
        let new = take(&mut s, 20).unwrap();
        assert!(new.handout > old.handout);
        assert!(!group(&mut s, |s| s.delivered(old.handout)));
        assert!(!group(&mut s, |s| s.undo(HandoutId(0))));
        assert!(group(&mut s, |s| s.undo(new.handout)));
    }
}

#[test]
fn p08_a_repeated_done_does_not_end_a_hand_out_that_nobody_has() {
    for by_crash in [false, true] {
        for mut s in TestStore::each(Options::default()) {
            feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
            let first = take(&mut s, 10).unwrap();
            assert!(group(&mut s, |s| s.delivered(first.handout)));
            feed(&mut s, "f1", 2, &[("alpha", "0 2")]);
            group(&mut s, |s| s.finish("alpha", 3, 20));
            let second = take(&mut s, 30).unwrap();
            group(&mut s, |s| s.finish("alpha", 3, 31));
            if by_crash {
                assert_eq!(s.crash(), 1);
            } else {
                assert!(group(&mut s, |s| s.undo(second.handout)));
            }
            let third = take(&mut s, 32).expect("nobody has received it");
            assert_eq!(third.payload, "0 2");
            // It was received: then the DONE has ended it.
            group(&mut s, |s| s.finish("alpha", 3, 33));
            assert!(group(&mut s, |s| s.delivered(third.handout)));
            assert!(!group(&mut s, |s| s.undo(third.handout)));
            assert_eq!((s.crash(), take(&mut s, 34)), (0, None));
        }
    }
}

#[test]
fn a_returning_run_waits_for_its_old_rows_to_be_deleted() {
    for mut s in TestStore::each(Options::default()) {
        for (fetcher, started) in [("f2", 1), ("f1", 1), ("f1", 2)] {
            feed_batch(&mut s, fetcher, started, &packages(300));
        }
        for fetcher in ["f2", "f1"] {
            group(&mut s, |s| s.mark_deleted(&RunId::new(fetcher, 1)));
        }
        assert_eq!(
            group(&mut s, |s| s.upsert_run(&RunId::new("f1", 3), false)),
            Upsert::Done,
            "another run may come"
        );
        assert_eq!(group(&mut s, |s| s.upsert_run(&RunId::new("f1", 1), false)), Upsert::Pending);
        let first = loop {
            if let Deletion::Finished(run) = group(&mut s, |s| s.delete_slice(&|| false)) {
                break run;
            }
        };
        assert_eq!(first, RunId::new("f1", 1), "the one that is waited for goes first");
        feed(&mut s, "f1", 1, &[("fresh", "0 1")]);
        assert_eq!(
            s.number("SELECT count(*) FROM queue WHERE fetcher_run_started = 1 AND attr_path = 'fresh'"),
            1
        );
    }
}

#[test]
fn r28_an_expired_job_is_repeated_although_another_fetcher_has_its_path() {
    for mut s in TestStore::each(Options { redeliver_after_lease: true, ..Options::default() }) {
        feed_batch(&mut s, "f1", 1, &packages(80));
        let mut last = String::new();
        for now in 0..80 {
            let job = take(&mut s, now).unwrap();
            group(&mut s, |s| s.delivered(job.handout));
            last = job.attr_path;
        }
        feed(&mut s, "f2", 1, &[(&last, "other")]);
        assert_eq!(group(&mut s, |s| s.bump(&last)), Bumped::Done);
        // More holds are over than one dequeue ends, and that of the bumped path is the last.
        let now = 80 + 43_200;
        let first = next(&mut s, now).unwrap();
        assert_eq!(first.0, last);
        group(&mut s, |s| s.finish(&last, 0, now));
        let mut given: Vec<_> = std::iter::from_fn(|| next(&mut s, now)).collect();
        given.push(first);
        given.retain(|job| job.1 != "other");
        assert_eq!(given.len(), 80, "nobody reported them done");
        assert!(given.iter().any(|job| job.0 == last));
    }
}

/// CONTRACT QR16.
#[test]
fn a_hand_out_ends_where_payloads_have_no_room() {
    for mut s in TestStore::each(Options::default()) {
        let lines: Vec<(String, String)> =
            (0..4).map(|n| (format!("long{n}"), "x".repeat(1 << 20))).collect();
        assert_eq!(group(&mut s, |s| s.upsert_run(&RunId::new("f1", 1), false)), Upsert::Done);
        group(&mut s, |s| s.enqueue(&RunId::new("f1", 1), &Batch::after(0, lines.clone()), 0, None));
        let ready = Operation::Worker { done: None, connection: Some("1") };
        let mut given = Vec::new();
        let mut served = |s: &mut TestStore, batch: &[Operation<'_>], room: u64| -> Vec<&str> {
            let outcomes = group(s, |s| s.serve(batch, UNSENT_BYTES_MAX - room, 10));
            let mut names = Vec::new();
            for outcome in outcomes {
                names.push(match outcome {
                    Outcome::Worker { job: Some(job), .. } => {
                        given.push(job.attr_path);
                        "job"
                    }
                    Outcome::Worker { job: None, .. } => "none",
                    Outcome::NoRoom { finished: None } => "no room",
                    other => panic!("{other:?}"),
                });
            }
            names
        };
        assert_eq!(served(&mut s, &[ready; 2], 1 << 19), ["no room"; 2]);
        assert_eq!(served(&mut s, &[ready; 3], (2 << 20) + 5), ["job", "job", "no room"]);
        let first = served(&mut s, &[ready], UNSENT_BYTES_MAX);
        assert_eq!(first, ["job"], "one alone always has room");
        assert_eq!(served(&mut s, &[ready; 2], UNSENT_BYTES_MAX), ["job", "none"]);
        given.sort();
        assert_eq!(given, ["long0", "long1", "long2", "long3"]);
    }
}
