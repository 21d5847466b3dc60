//! Jobs that other subsystems offer (CONTRACT QO12).

use orchestrator_exchange::JobId;
use orchestrator_queue_rules::storage::{Finished, OfferEnd, OfferState, OfferedJob, Operation, Outcome};

use orchestrator_queue_sqlite::Options;

use crate::tests::store::*;

const DAY: i64 = 86_400;

fn job(name: &str, claim: &str) -> OfferedJob {
    let (owner, attr_path) = JobId::new("catalog.lab.work", name, claim).owned_path();
    OfferedJob::new(owner, attr_path, claim)
}

fn offer(s: &mut TestStore, job: &OfferedJob) -> OfferState {
    group(s, |s| s.offer(job, "payload"))
}

fn finish(s: &mut TestStore, attr_path: &str, now: i64) -> Option<OfferedJob> {
    let finished = group(s, |s| s.finish(attr_path, 3, now));
    finished.and_then(|finished: Finished| finished.offered)
}

fn take_back(s: &mut TestStore, job: &OfferedJob) -> bool {
    group(s, |s| s.one(Operation::TakeBack(job), 0)) == Outcome::Changed(true)
}

fn rows(s: &TestStore) -> (i64, i64) {
    let offers = match s.kind {
        Kind::Sqlite => "SELECT count(*) FROM orchestrator_offer",
        Kind::Postgres => "SELECT count(*) FROM offer",
    };
    (s.number("SELECT count(*) FROM queue"), s.number(offers))
}

#[test]
fn an_offered_job_is_handed_out_once_and_its_end_is_known_until_it_is_withdrawn() {
    for mut s in TestStore::each(Options::default()) {
        let one = job("a b", "1");
        assert_eq!(offer(&mut s, &one), OfferState::Open);
        assert_eq!(offer(&mut s, &one), OfferState::Open, "the same offer");
        assert_eq!(next(&mut s, 10), Some(("a%20b".to_owned(), "payload".to_owned())));
        assert_eq!(offer(&mut s, &one), OfferState::Open, "it is in flight");
        assert_eq!(next(&mut s, 11), None);
        assert_eq!(finish(&mut s, "a%20b", 17), Some(one.clone()));
        assert_eq!(finish(&mut s, "a%20b", 18), None, "a repeated report");
        let end = OfferState::Finished(OfferEnd { exit_code: 3, seconds: 7 });
        assert_eq!(offer(&mut s, &one), end);
        s.crash();
        assert_eq!(offer(&mut s, &one), end);
        assert_eq!(next(&mut s, 19), None);
        assert!(group(&mut s, |s| s.withdraw(&one)));
        assert!(!group(&mut s, |s| s.withdraw(&one)));
        assert_eq!(rows(&s), (0, 0));
    }
}

#[test]
fn a_report_counts_only_for_the_claim_of_its_hand_out() {
    for mut s in TestStore::each(Options::default()) {
        let (first, second) = (job("a", "1"), job("a", "2"));
        offer(&mut s, &first);
        assert_eq!(next_attr(&mut s, 10).as_deref(), Some("a"));
        assert_eq!(offer(&mut s, &second), OfferState::Open);
        assert!(!group(&mut s, |s| s.withdraw(&first)), "it is replaced");
        assert_eq!(next(&mut s, 11), None, "the path is held by the first hand-out");
        assert_eq!(finish(&mut s, "a", 20), None);
        assert_eq!(next_attr(&mut s, 21).as_deref(), Some("a"));
        assert_eq!(finish(&mut s, "a", 30), Some(second));
    }
}

#[test]
fn a_job_that_was_handed_out_goes_on_under_the_claim_that_takes_it_over() {
    for mut s in TestStore::each(Options::default()) {
        let [first, second, third] = ["1", "2", "3"].map(|claim| job("a", claim));
        let after = |s: &mut TestStore, former: &str, job: &OfferedJob| match group(s, |s| {
            s.one(Operation::Offer { job, former: Some(former), payload: "payload" }, 0)
        }) {
            Outcome::Offered(state) => state,
            other => panic!("{other:?}"),
        };
        assert_eq!(after(&mut s, "0", &first), OfferState::Open, "the former claim is not known");
        let handed_out = take(&mut s, 10).expect("a job");
        assert!(group(&mut s, |s| s.delivered(handed_out.handout)));
        s.crash();
        assert_eq!(after(&mut s, "1", &second), OfferState::Open, "in flight");
        assert_eq!(next(&mut s, 11), None);
        assert_eq!(finish(&mut s, "a", 17), Some(second));
        let end = OfferState::Finished(OfferEnd { exit_code: 3, seconds: 7 });
        assert_eq!(after(&mut s, "2", &third), end, "ended meanwhile");
        assert_eq!(after(&mut s, "2", &third), end, "the same offer");
        assert_eq!(after(&mut s, "2", &job("a", "4")), OfferState::Open, "not the claim before");
        assert_eq!(next_attr(&mut s, 20).as_deref(), Some("a"));
    }
}

#[test]
fn a_job_is_taken_back_unless_a_worker_has_it_or_has_ended_it() {
    for mut s in TestStore::each(Options::default()) {
        let one = job("a", "1");
        assert!(take_back(&mut s, &one), "it is not known");
        offer(&mut s, &one);
        assert!(take_back(&mut s, &job("a", "0")), "not under this claim");
        assert!(take_back(&mut s, &one));
        assert_eq!((next(&mut s, 10), rows(&s)), (None, (0, 0)));
        offer(&mut s, &one);
        assert_eq!(next_attr(&mut s, 11).as_deref(), Some("a"));
        assert!(!take_back(&mut s, &one), "in flight");
        assert_eq!(finish(&mut s, "a", 12), Some(one.clone()));
        assert!(!take_back(&mut s, &one), "ended");
        assert!(group(&mut s, |s| s.withdraw(&one)));
    }
}

#[test]
fn a_withdrawn_job_is_not_handed_out_and_its_report_counts_for_nobody() {
    for mut s in TestStore::each(Options::default()) {
        let (waiting, in_flight) = (job("w", "1"), job("f", "1"));
        offer(&mut s, &in_flight);
        assert_eq!(next_attr(&mut s, 10).as_deref(), Some("f"));
        offer(&mut s, &waiting);
        for job in [&waiting, &in_flight] {
            assert!(group(&mut s, |s| s.withdraw(job)));
        }
        assert_eq!((next(&mut s, 11), rows(&s)), (None, (0, 0)));
        assert_eq!(finish(&mut s, "f", 20), None);
        assert_eq!(next(&mut s, 20 + 10 * DAY), None);
    }
}

#[test]
fn a_job_whose_worker_is_gone_is_handed_out_again_after_its_hold() {
    let options = Options::default();
    assert!(!options.redeliver_after_lease);
    for mut s in TestStore::each(options) {
        let one = job("a", "1");
        offer(&mut s, &one);
        let handed_out = take(&mut s, 10).expect("a job");
        assert!(group(&mut s, |s| s.delivered(handed_out.handout)));
        s.crash();
        assert_eq!(offer(&mut s, &one), OfferState::Open);
        assert_eq!(next(&mut s, 10 + 43_200), None);
        assert_eq!(next_attr(&mut s, 11 + 43_200).as_deref(), Some("a"));
        assert_eq!(finish(&mut s, "a", 12 + 43_200), Some(one));
    }
}

#[test]
fn an_undone_hand_out_leaves_the_job_waiting() {
    for mut s in TestStore::each(Options::default()) {
        let one = job("a", "1");
        offer(&mut s, &one);
        let handed_out = take(&mut s, 10).expect("a job");
        assert!(group(&mut s, |s| s.undo(handed_out.handout)));
        assert_eq!(finish(&mut s, "a", 11), None, "nothing is in flight");
        assert_eq!(next_attr(&mut s, 12).as_deref(), Some("a"));
        assert_eq!(finish(&mut s, "a", 13), Some(one));
    }
}

#[test]
fn a_requeued_job_is_handed_out_again() {
    for mut s in TestStore::each(Options::default()) {
        let one = job("a", "1");
        offer(&mut s, &one);
        assert_eq!(next_attr(&mut s, 10).as_deref(), Some("a"));
        assert!(group(&mut s, |s| s.requeue("a", 11)).was_in_flight);
        assert_eq!(next_attr(&mut s, 12).as_deref(), Some("a"));
        assert_eq!(finish(&mut s, "a", 13), Some(one));
    }
}

#[test]
fn a_start_withdraws_what_waits_and_forgets_old_ends() {
    for mut s in TestStore::each(Options::default()) {
        let (ended, in_flight, waiting) = (job("e", "1"), job("f", "1"), job("w", "1"));
        offer(&mut s, &ended);
        assert_eq!(next_attr(&mut s, 10).as_deref(), Some("e"));
        finish(&mut s, "e", 20);
        offer(&mut s, &in_flight);
        assert_eq!(next_attr(&mut s, 21).as_deref(), Some("f"));
        offer(&mut s, &waiting);
        assert_eq!(group(&mut s, |s| s.withdraw_waiting(30)), 1);
        assert_eq!((next(&mut s, 31), rows(&s)), (None, (1, 2)));
        assert_eq!(finish(&mut s, "f", 32), Some(in_flight));
        assert_eq!(group(&mut s, |s| s.withdraw_waiting(20 + 7 * DAY)), 0);
        assert_eq!(rows(&s), (0, 2));
        group(&mut s, |s| s.withdraw_waiting(21 + 7 * DAY));
        assert_eq!(rows(&s), (0, 1));
    }
}

#[test]
fn runs_of_other_subsystems_are_no_runs_of_files() {
    for mut s in TestStore::each(Options::default()) {
        offer(&mut s, &job("a", "1"));
        feed(&mut s, "f", 1, &[("a", "file")]);
        let known = group(&mut s, |s| s.known_runs());
        assert_eq!(known.iter().map(|state| state.run.fetcher.as_str()).collect::<Vec<_>>(), ["f"]);
        // The path is handed out for one of both; the other waits for the report.
        assert!(next(&mut s, 10).is_some());
        assert_eq!(next(&mut s, 11), None);
        let first = finish(&mut s, "a", 12);
        assert!(next(&mut s, 13).is_some());
        let second = finish(&mut s, "a", 14);
        assert_eq!(
            (first.is_some(), second.is_some()),
            (true, false),
            "the number of the first fetcher is lower"
        );
    }
}

#[test]
fn a_job_whose_row_another_program_deleted_is_added_again() {
    let mut s = TestStore::new();
    let one = job("a", "1");
    offer(&mut s, &one);
    s.foreign().execute("DELETE FROM fetcher_runs", []).unwrap();
    assert_eq!(next(&mut s, 10), None);
    assert_eq!(offer(&mut s, &one), OfferState::Open);
    assert_eq!(next_attr(&mut s, 11).as_deref(), Some("a"));
    assert_eq!(finish(&mut s, "a", 12), Some(one));
}
