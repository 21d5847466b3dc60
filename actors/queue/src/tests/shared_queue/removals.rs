//! Rows and jobs that are removed while other instances hand out.

use super::*;

#[test]
fn a_deleted_run_is_handed_out_no_more_while_others_hand_out_and_add() {
    const PATHS: usize = 900;
    let (mut one, mut observer) = shared(&[]);
    let batch = |payload: &str| Batch::after(0, (0..PATHS).map(|n| (format!("pkg{n}"), payload.to_owned())));
    feed_batch(&mut one, "f1", 1, &batch("old"));
    feed_batch(&mut one, "f1", 2, &batch("deleted"));
    let (is_deleted, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let given = scope(|threads| {
        let (settings, is_deleted, is_over) = (one.settings("two"), &is_deleted, &is_over);
        let worker = threads.spawn(move || {
            let mut store = open(&settings);
            let (mut given, mut jobs, mut now) = (Vec::new(), Vec::new(), 10);
            loop {
                let (after, last, from_head) =
                    (is_deleted.load(SeqCst), is_over.load(SeqCst), jobs.is_empty());
                now += i64::from(from_head);
                jobs = exchange(&mut store, &jobs, 8, now);
                assert!(!after || jobs.iter().all(|job| job.payload != "deleted"), "{jobs:?}");
                given.extend(jobs.iter().map(|job| (job.attr_path.clone(), job.payload.clone())));
                if jobs.is_empty() && last && from_head {
                    return given;
                }
            }
        });
        let settings = one.settings("three");
        let other = threads.spawn(move || {
            let mut store = open(&settings);
            let (run, batch) = (RunId::new("f2", 1), packages(PATHS));
            assert_eq!(group(&mut store, |s| s.upsert_run(&run, false)), Upsert::Done);
            let entries = batch.entries_from(0).chunks(10);
            for part in entries {
                let part =
                    Batch::after(0, part.iter().map(|entry| (entry.attr_path.clone(), "other".to_owned())));
                retried(&mut store, |s| s.enqueue(&run, &part, 0, None));
            }
        });
        retried(&mut one, |s| s.mark_deleted(&RunId::new("f1", 2)));
        while retried(&mut one, |s| s.delete_slice(&|| false)) == Deletion::More {}
        is_deleted.store(true, SeqCst);
        other.join().unwrap();
        is_over.store(true, SeqCst);
        worker.join().unwrap()
    });
    assert_eq!(observer.waiting(), 0, "rows wait that nobody finds");
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for (attr_path, payload) in &given {
        *counts.entry((attr_path, payload == "other")).or_default() += 1;
    }
    assert_eq!(counts.len(), 2 * PATHS, "for both fetchers, the older run where the newer was deleted");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[test]
fn rows_are_removed_and_added_in_the_same_order() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    for started in [1, 2] {
        feed(&mut one, "f1", started, &[("alpha", "0 1"), ("omega", "0 1")]);
    }
    let added = RunId::new("f2", 1);
    assert_eq!(group(&mut two, |s| s.upsert_run(&added, false)), Upsert::Done);
    let add = |two: &mut PostgresStore, attr_path: &str| {
        two.enqueue(&added, &Batch::after(0, [(attr_path.to_owned(), "0 1".to_owned())]), 0, None).unwrap();
    };
    group(&mut one, |s| s.mark_deleted(&RunId::new("f1", 2)));
    two.begin().unwrap();
    add(&mut two, "alpha");
    let removal = spawn(move || group(&mut one, |s| s.delete_slice(&|| false)));
    observer.wait_for_lock(&removal);
    add(&mut two, "omega");
    two.commit().unwrap();
    assert_eq!(removal.join().unwrap(), Deletion::More);
}

#[test]
fn a_path_added_while_an_offer_of_it_is_withdrawn_waits() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let offered = OfferedJob::new("catalog.lab.work", "alpha", "1");
    group(&mut one, |s| s.offer(&offered, "payload"));
    observer.hold("BEFORE DELETE ON ready");
    let withdrawal = spawn(move || group(&mut one, |s| s.withdraw(&offered)));
    observer.wait_for_lock(&withdrawal);
    let addition = spawn(move || {
        feed(&mut two, "f2", 1, &[("alpha", "other")]);
        two
    });
    wait_for("the addition", || {
        let blocked = observer.number(
            "SELECT count(*) FROM pg_stat_activity AS a WHERE cardinality(pg_blocking_pids(a.pid)) > 0
                 AND a.query LIKE 'SELECT ingest%'",
        );
        (blocked > 0 || addition.is_finished()).then_some(())
    });
    observer.release();
    assert!(withdrawal.join().unwrap());
    let mut two = addition.join().unwrap();
    assert_eq!(next(&mut two, 10), job("alpha", "other"));
}

#[test]
fn a_row_removed_during_its_hand_out_is_not_in_flight() {
    for event in ["BEFORE DELETE ON ready", "AFTER INSERT ON in_flight"] {
        let (mut one, mut observer) = shared(&[(Some("alpha"), None, 1)]);
        let mut two = open(&one.settings("two"));
        feed(&mut one, "f1", 1, &[("alpha", "old")]);
        feed(&mut one, "f1", 2, &[("alpha", "new")]);
        observer.hold(event);
        let handout = spawn(move || (next(&mut two, 10), two));
        observer.wait_for_lock(&handout);
        observer.run("DELETE FROM listing WHERE run_started = 2");
        observer.release();
        let (given, mut two) = handout.join().unwrap();
        if given.is_none() {
            assert_eq!(next(&mut two, 11), job("alpha", "old"), "{event}");
        } else {
            assert_eq!(given, job("alpha", "old"), "{event}");
        }
    }
}

#[test]
fn a_job_withdrawn_during_its_hand_out_is_not_in_flight() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let offered = OfferedJob::new("catalog.lab.work", "alpha", "1");
    group(&mut one, |s| s.offer(&offered, "payload"));
    observer.hold("AFTER INSERT ON in_flight");
    let handout = spawn(move || (next(&mut two, 10), two));
    observer.wait_for_lock(&handout);
    assert!(group(&mut one, |s| s.withdraw(&offered)));
    observer.release();
    let (given, mut two) = handout.join().unwrap();
    assert_eq!(given, None);
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next(&mut two, 11), job("alpha", "0 1"), "nothing holds the path");
}
