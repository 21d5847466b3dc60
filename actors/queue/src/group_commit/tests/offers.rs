//! Jobs that other subsystems offer.

use orchestrator_exchange::{JobEnd, JobFinished};
use orchestrator_queue_rules::{protocol::Request, storage::OfferedJob};
use orchestrator_supervise::{Pending, reply};

use super::Fixture;
use crate::messages::StoreRequest;

fn offer(fixture: &mut Fixture, claim: &str) -> Pending<JobEnd> {
    let (reply, end) = reply();
    let job = OfferedJob::new("catalog.lab.work", "zulu", claim);
    let payload = String::new();
    fixture.group.add_request(StoreRequest::Offer { job, former: None, payload, reply });
    end
}

#[test]
fn the_end_of_an_offered_job_is_answered_after_its_commit() {
    let mut fixture = Fixture::with_rows(&[]);
    let mut end = offer(&mut fixture, "1");
    let mut job = fixture.ready();
    fixture.turn().unwrap();
    assert_eq!(job.try_recv().unwrap().flatten().expect("a job").job.attr_path, "zulu");
    let mut other = offer(&mut fixture, "2");
    fixture.turn().unwrap();
    assert_eq!(other.try_recv().unwrap(), Some(JobEnd::Taken), "the first row's job has not ended");
    // An end in the same turn as a repeated offer.
    let mut repeated = offer(&mut fixture, "1");
    let (reply, _next) = reply();
    let request = Request::Done { attr_path: "zulu".to_owned(), exit_code: 4 };
    fixture.group.add_request(StoreRequest::Worker { request, connection: "1".into(), reply });
    fixture.store.faults.arm("commit", 1);
    fixture.turn().unwrap_err();
    assert_eq!(repeated.try_recv().unwrap(), None);
    fixture.turn().unwrap();
    let expected = JobEnd::Finished(JobFinished { exit_code: 4, seconds: 0 });
    assert_eq!(repeated.try_recv().unwrap(), Some(expected));
    assert!(end.try_recv().is_err(), "the repeated offer replaced the first one");
}
