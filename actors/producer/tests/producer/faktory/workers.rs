//! Workers of other people take our jobs as they are.

use orchestrator_harness::{Faktory as Peer, PyFaktory};
use orchestrator_producer::{
    batch::Batch,
    edge::faktory::Pushed,
    job::{Jid, Job, JobWriter, Terms},
};
use serde_json::{Value, json};

use super::house::*;

/// pyfaktory is what the workers that exist are made with.
#[test]
fn a_worker_of_pyfaktory_takes_and_acknowledges_all_jobs_unchanged() {
    let peer = Peer::start(&["--dup-report"]);
    let (faktory, spec) = to(&peer.url());
    TestTree::run(spec, async |_tree| {
        let writer = JobWriter::new(&Terms::default()).unwrap();
        let mut plain = Batch::with_room_for(10);
        for number in 20..30 {
            plain.add(&writer, &Job { jid: Jid::random(), keyed: false, ..job(number, 0) }).unwrap();
        }
        for batch in [batch(0..20), plain, batch(30..31)] {
            assert_eq!(faktory.push(0, batch).await, Ok(Pushed::default()));
        }
        let mut worker = PyFaktory::start(&peer, "arborescent", "arbor_job");
        let done: Vec<Value> = (0..31).map(|_| worker.next_args()).collect();
        let wanted: Vec<Value> = (0..31).map(|number| json!(job(number, 0).pair.args())).collect();
        assert_eq!(done, wanted);
        eventually("all are acknowledged", || peer.info()["faktory"]["total_processed"] == 31).await;
        let info = peer.info();
        assert_eq!(info["faktory"]["total_failures"], 0);
        assert_eq!(info["faktory"]["sets"], json!({"dead": 0, "retries": 0, "scheduled": 0, "working": 0}));
        assert_eq!(
            info["test"],
            json!({"accepted": 31, "distinct_jids": 31, "dup_jids": 0, "lost_replies": 0})
        );
        let reading = faktory.info().await.unwrap();
        assert_eq!((reading.length("arborescent"), reading.processed), (0, 31));
    });
}
