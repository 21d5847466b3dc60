//! Tests of fetchers, bumps and places: each fetcher and each place has one instance.

use super::*;

#[test]
fn a_fetcher_belongs_to_one_instance() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let upsert = |s: &mut PostgresStore, fetcher: &str| {
        s.begin().unwrap();
        let error = s.upsert_run(&RunId::new(fetcher, 2), false).unwrap_err();
        s.rollback().unwrap();
        assert_eq!(error.kind, StorageErrorKind::OtherInstance, "{error}");
        error.text.split_once(", so").expect("a reason").0.to_owned()
    };
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(upsert(&mut two, "f1"), "fetcher f1 belongs to the instance one");
    // Both add it at the same time.
    one.begin().unwrap();
    assert_eq!(one.upsert_run(&RunId::new("f2", 1), false).unwrap(), Upsert::Done);
    let mut observer = Observer::of(&one.schema);
    let other = spawn(move || upsert(&mut two, "f2"));
    observer.wait_for_lock(&other);
    one.commit().unwrap();
    assert_eq!(other.join().unwrap(), "fetcher f2 belongs to the instance one");
}

#[test]
fn p08_a_done_at_another_instance_counts() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next_attr(&mut one, 10).as_deref(), Some("alpha"));
    for (code, now) in [(3, 15), (0, 16)] {
        let finished = group(&mut two, |s| s.finish("alpha", code, now)).expect("it was handed out");
        assert_eq!(finished.seconds, now - 10);
        let log = format!("SELECT count(*) FROM log WHERE finished = {now} AND exit_code = {code}");
        assert_eq!(observer.number(&log), 1);
    }
    feed(&mut one, "f1", 2, &[("alpha", "0 2")]);
    assert_eq!(next(&mut one, 17), job("alpha", "0 2"));
}

#[test]
fn a_start_leaves_the_bumps_of_others() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed_batch(&mut one, "f1", 1, &packages(20));
    assert_eq!(group(&mut two, |s| s.bump("pkg7")), Bumped::Done);
    let bumped = take(&mut two, 10).unwrap();
    assert_eq!(bumped.attr_path, "pkg7");
    assert!(group(&mut two, |s| s.delivered(bumped.handout)));
    assert_eq!(one.crash(), 0);
    assert!(group(&mut two, |s| s.undo(bumped.handout)));
    assert_eq!(next_attr(&mut two, 11).as_deref(), Some("pkg7"), "the bump counts again");
}

fn refusal(settings: &Settings) -> String {
    try_place(settings).expect_err("the place is taken").to_string()
}

fn set_lease(observer: &mut Observer, instance: &str, seconds: i64) {
    observer.run(&format!(
        "UPDATE instance SET lease_until = now() + interval '{seconds} s' WHERE instance = '{instance}'"
    ));
}

#[test]
fn a_process_takes_the_place_of_one_that_ended() {
    let (one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let first = open(&settings);
    set_lease(&mut observer, "two", 3_600);
    let refused = refusal(&settings);
    assert!(refused.contains("instance two is in use on host here with the socket worker.sock"), "{refused}");
    assert!(refused.contains("OQ002"), "{refused}");
    drop(first);
    place_of(&settings);
}

#[test]
fn a_process_whose_lease_is_over_is_fenced() {
    let (mut one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let mut first = open(&settings);
    feed_batch(&mut one, "f1", 1, &packages(3));
    let delivered = take(&mut first, 10).unwrap();
    group(&mut first, |s| s.delivered(delivered.handout));
    let undone = take(&mut first, 10).unwrap();
    set_lease(&mut observer, "two", -1);
    let mut second = open(&settings);
    first.begin().unwrap();
    let error = first.known_runs().unwrap_err().to_string();
    assert!(error.contains("OQ001") && error.contains("instance two"), "{error}");
    assert_eq!(group(&mut second, |s| s.undo_undelivered()), 1);
    let mut rest: Vec<String> = std::iter::from_fn(|| next_attr(&mut second, 11)).collect();
    rest.sort();
    let mut expected = paths(3);
    expected.remove(&delivered.attr_path);
    assert!(expected.contains(&undone.attr_path));
    assert_eq!(rest, expected.into_iter().collect::<Vec<_>>());
    // The second has no lock, so a free one does not mean its end.
    drop(first);
    let free = advisory_locks(&one, "two", "count(*)");
    wait_for("the end of the first", || (observer.number(&free) == 0).then_some(()));
    set_lease(&mut observer, "two", 3_600);
    let refused = refusal(&settings);
    assert!(refused.contains("OQ002"), "{refused}");
    group(&mut second, |s| s.finish(&undone.attr_path, 0, 12));
}

/// Query about the sessions that have the lock of an instance.
fn advisory_locks(store: &TestStore, instance: &str, column: &str) -> String {
    format!(
        "SELECT {column} FROM pg_locks WHERE locktype = 'advisory'
             AND (classid::bigint << 32 | objid::bigint) = hashtextextended('{}/{instance}', 0)",
        store.schema
    )
}

#[test]
fn an_instance_keeps_its_place_when_its_session_is_lost() {
    let (mut one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let mut first = open(&settings);
    set_lease(&mut observer, "two", 3_600);
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    first.begin().unwrap();
    assert!(first.dequeue(10, "1").unwrap().is_some());
    observer.number(&advisory_locks(&one, "two", "pg_terminate_backend(pid)::integer::bigint"));
    first.commit().unwrap_err();
    assert_eq!(next_attr(&mut first, 11).as_deref(), Some("alpha"), "the hand-out was not committed");
    // The lost session may end later than the next one begins, which tries to get the lock in each
    // transaction.
    let is_locked = "SELECT is_locked::integer::bigint FROM instance WHERE instance = 'two'";
    eventually("the place to be locked again", || {
        assert_eq!(next_attr(&mut first, 11), None);
        observer.number(is_locked) == 1
    });
    let refused = refusal(&settings);
    assert!(refused.contains("OQ002"), "{refused}");
    drop(first);
    place_of(&settings);
}

#[test]
fn many_jobs_of_a_dead_instance_hide_no_later_one() {
    const JOBS: usize = 10_000;
    let (mut one, mut observer) = shared(&[]);
    feed_batch(&mut one, "f1", 1, &packages(JOBS));
    let mut two = open(&one.settings("two"));
    while !exchange(&mut two, &[], 500, 10).is_empty() {}
    drop(two);
    assert_eq!(observer.number("SELECT count(*) FROM in_flight WHERE is_held"), 10_000);
    feed(&mut one, "f1", 2, &[("later", "0 1")]);
    assert_eq!(next_attr(&mut one, 10).as_deref(), Some("later"));
    set_lease(&mut observer, "two", -1);
    let taken_back = "SELECT count(*) FROM renew_lease('one', 1, interval '1 day')";
    assert_eq!(observer.number(taken_back), 1);
    let taken_back =
        std::iter::from_fn(|| Some(exchange(&mut one, &[], 500, 11).len()).filter(|jobs| *jobs > 0));
    assert_eq!(taken_back.sum::<usize>(), JOBS);
}
