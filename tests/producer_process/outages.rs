//! Outages of MongoDB and Faktory: the producer keeps running, reports the peer, and resumes.

use std::{collections::BTreeSet, thread::sleep, time::Duration};

use orchestrator_harness::{
    Faktory, FaktoryWorker, Instance, MongoDb, ProducerEnv, Tanglenomicon, eventually, rounds,
};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const CHUNK: u64 = 10;
/// Options of a slow server, so that an outage falls into a stencil.
const SLOW: [&str; 2] = ["--push-latency-ms", "30"];

fn outage() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_PRODUCER_OUTAGE_SECS", 3))
}

/// Running producer.
struct Fixture {
    all: Tanglenomicon,
    database: MongoDb,
    queue: Faktory,
    site: ProducerEnv,
    instance: Instance,
}

impl Fixture {
    fn start() -> Self {
        let (database, queue) = (MongoDb::start(), Faktory::start(&SLOW));
        let all = Tanglenomicon { tangles: vec![(2, 26), (3, 10)], ..Tanglenomicon::small() };
        all.fill(&database);
        let site = ProducerEnv::new(BINARY, &database, &queue)
            .set("producer.page_size=1")
            .set(&format!("producer.chunk={CHUNK}"))
            .set("producer.lease_ms=3000")
            .set("producer.until_done=true");
        let instance = site.start();
        let fixture = Self { all, database, queue, site, instance };
        fixture.wait_for_more_jobs();
        fixture
    }

    fn operate(&self, verb: &str) {
        let (code, _, error) = self.site.base().cli(&["producer", verb]);
        assert_eq!(code, 0, "{error}");
    }

    /// Pauses pushing and waits until no chunk is in flight.
    fn pause(&self) {
        self.operate("pause");
        let mut quiet = 0;
        eventually("no chunk to be in flight", || {
            let connection = self.site.base().node("producer/faktory/0");
            quiet = if connection["in_progress"].is_null() { quiet + 1 } else { 0 };
            quiet == 20
        });
    }

    fn wait_for_more_jobs(&self) {
        let before = self.queue.accepted().len();
        eventually("more jobs", || self.queue.accepted().len() > before + 3 * CHUNK as usize);
    }

    /// Checks that `peer` is reported, nothing is pushed, and no child is restarted.
    fn assert_outage_is_reported(&self, peer: &str) {
        eventually("the peer to be reported", || self.site.status()["away"][peer].is_string());
        let before = self.queue.accepted().len();
        sleep(outage());
        assert_eq!(self.queue.accepted().len(), before);
        let status = self.site.status();
        assert!(status["away"][peer].is_string(), "{status:#}");
        self.assert_no_restarts();
    }

    fn assert_no_restarts(&self) {
        let tree = self.site.base().snapshot().expect("it runs");
        for node in tree.all() {
            assert_eq!(node["restarts"], 0, "{node:#}");
        }
    }

    /// Waits for the end. Every job was pushed, and at most `repeated` chunks are repeated.
    fn assert_exits_with_0(mut self, repeated: u64) {
        let _worker = FaktoryWorker::start(&self.queue, "arborescent");
        assert_eq!(self.instance.wait().code(), Some(0), "{}", self.site.base().log());
        let taken: Vec<String> = self.queue.accepted().iter().map(|job| job["args"].to_string()).collect();
        let wanted: BTreeSet<String> = self.all.jobs(1).iter().map(Value::to_string).collect();
        assert_eq!(taken.iter().cloned().collect::<BTreeSet<_>>(), wanted);
        assert!(
            (taken.len() - wanted.len()) as u64 <= repeated * CHUNK,
            "{} of {}",
            taken.len(),
            wanted.len()
        );
    }
}

#[test]
fn pushing_resumes_after_faktory_hangs() {
    let fixture = Fixture::start();
    fixture.queue.freeze();
    fixture.assert_outage_is_reported("queue");
    fixture.queue.thaw();
    eventually("the peer to be available again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.wait_for_more_jobs();
    fixture.assert_no_restarts();
    fixture.assert_exits_with_0(CHUNK);
}

/// The server loses its jobs. They are pushed again with all others of their TCN, since nobody knows which
/// are lost.
#[test]
fn jobs_are_pushed_again_after_faktory_lost_them() {
    let mut fixture = Fixture::start();
    fixture.queue.kill_nine();
    fixture.assert_outage_is_reported("queue");
    fixture.queue.start_again(&SLOW);
    eventually("the peer to be available again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.wait_for_more_jobs();
    fixture.assert_no_restarts();
    let of_the_tcn = fixture.all.tangles[0].1.pow(2);
    fixture.assert_exits_with_0(of_the_tcn + CHUNK);
}

/// The outage starts without a command in flight, so no reply is lost.
#[test]
fn an_outage_of_faktory_between_chunks_is_reported() {
    let mut fixture = Fixture::start();
    fixture.pause();
    fixture.queue.kill_nine();
    eventually("the server to be reported", || fixture.site.status()["away"]["queue"].is_string());
    fixture.operate("resume");
    fixture.assert_outage_is_reported("queue");
    fixture.queue.start_again(&SLOW);
    eventually("the peer to be available again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.wait_for_more_jobs();
    fixture.assert_no_restarts();
    let of_the_tcn = fixture.all.tangles[0].1.pow(2);
    fixture.assert_exits_with_0(of_the_tcn + CHUNK);
}

/// The renewal of the lease reports the outage, although no other request is made.
#[test]
fn an_outage_of_mongodb_during_a_pause_is_reported() {
    let mut fixture = Fixture::start();
    fixture.pause();
    fixture.database.kill_nine();
    eventually("the database to be reported", || fixture.site.status()["away"]["database"].is_string());
    fixture.database.start_again();
    eventually("the peer to be available again", || fixture.site.status()["away"]["database"].is_null());
    fixture.operate("resume");
    fixture.assert_no_restarts();
    fixture.assert_exits_with_0(CHUNK);
}

#[test]
fn pushing_resumes_after_an_outage_of_mongodb() {
    let mut fixture = Fixture::start();
    fixture.database.kill_nine();
    fixture.assert_outage_is_reported("database");
    fixture.database.start_again();
    eventually("the peer to be available again", || fixture.site.status()["away"]["database"].is_null());
    fixture.wait_for_more_jobs();
    fixture.assert_no_restarts();
    fixture.assert_exits_with_0(CHUNK);
}

/// The producer starts before its peers.
#[test]
fn the_producer_starts_before_its_peers() {
    let (mut database, mut queue) = (MongoDb::start(), Faktory::start(&[]));
    let small = Tanglenomicon::small();
    small.fill(&database);
    database.kill_nine();
    queue.kill_nine();
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=2");
    let instance = site.start();
    eventually("the database to be reported", || site.status()["away"]["database"].is_string());
    database.start_again();
    queue.start_again(&[]);
    let _worker = FaktoryWorker::start(&queue, "arborescent");
    eventually("all to be done", || site.status()["phase"] == "finished");
    assert_eq!(queue.accepted().len(), small.jobs(2).len());
    assert!(instance.terminate().success(), "{}", site.base().log());
}
