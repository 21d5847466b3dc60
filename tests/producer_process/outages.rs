//! Peers of the producer that are away for a while: it stays, says who is missing, and goes on where it was.

use std::{collections::BTreeSet, thread::sleep, time::Duration};

use orchestrator_harness::{
    Faktory, FaktoryWorker, Instance, MongoDb, ProducerEnv, Tanglenomicon, eventually, rounds,
};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const CHUNK: u64 = 10;
/// A server that takes its time, so that it is missed in the middle of a stencil.
const SLOW: [&str; 2] = ["--push-latency-ms", "30"];

/// How long a server stays away, seconds.
fn outage() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_PRODUCER_OUTAGE_SECS", 3))
}

/// A producer at work.
struct Fixture {
    all: Tanglenomicon,
    database: MongoDb,
    queue: Faktory,
    site: ProducerEnv,
    instance: Instance,
}

impl Fixture {
    fn at_work() -> Self {
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
        fixture.await_more();
        fixture
    }

    fn operate(&self, verb: &str) {
        let (code, _, error) = self.site.base().cli(&["producer", verb]);
        assert_eq!(code, 0, "{error}");
    }

    /// Pauses it, and waits until nothing is on its way: a chunk that had begun is acknowledged and noted by then.
    fn pause(&self) {
        self.operate("pause");
        let mut quiet = 0;
        eventually("nothing to be on its way", || {
            let connection = self.site.base().node("producer/faktory/0");
            quiet = if connection["in_progress"].is_null() { quiet + 1 } else { 0 };
            quiet == 20
        });
    }

    fn await_more(&self) {
        let before = self.queue.accepted().len();
        eventually("more jobs", || self.queue.accepted().len() > before + 3 * CHUNK as usize);
    }

    /// `peer` is missed, nothing is pushed, and nobody is restarted.
    fn assert_waits_for(&self, peer: &str) {
        eventually("the peer to be missed", || self.site.status()["away"][peer].is_string());
        let before = self.queue.accepted().len();
        sleep(outage());
        assert_eq!(self.queue.accepted().len(), before);
        let status = self.site.status();
        assert!(status["away"][peer].is_string(), "{status:#}");
        self.assert_nobody_restarted();
    }

    fn assert_nobody_restarted(&self) {
        let tree = self.site.base().snapshot().expect("it runs");
        for node in tree.all() {
            assert_eq!(node["restarts"], 0, "{node:#}");
        }
    }

    /// It goes on and comes to its end; every pair became a job, `repeated` of them more than once at the most.
    fn ends(mut self, repeated: u64) {
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
fn faktory_may_stand_still_for_a_while() {
    let fixture = Fixture::at_work();
    fixture.queue.freeze();
    fixture.assert_waits_for("queue");
    fixture.queue.thaw();
    eventually("it to be there again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.await_more();
    fixture.assert_nobody_restarted();
    fixture.ends(CHUNK);
}

/// One that comes back without the jobs that it had: they are pushed again, with all others of their TCN, since nobody can tell which.
#[test]
fn faktory_may_be_gone_for_a_while_and_with_it_its_jobs() {
    let mut fixture = Fixture::at_work();
    fixture.queue.kill_nine();
    fixture.assert_waits_for("queue");
    fixture.queue.start_again(&SLOW);
    eventually("it to be there again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.await_more();
    fixture.assert_nobody_restarted();
    let of_the_tcn = fixture.all.tangles[0].1.pow(2);
    fixture.ends(of_the_tcn + CHUNK);
}

/// A server that goes while nothing is on its way to it, so that no reply is missing: the next chunk only waits for a connection.
#[test]
fn faktory_is_missed_also_between_two_chunks() {
    let mut fixture = Fixture::at_work();
    fixture.pause();
    fixture.queue.kill_nine();
    eventually("the server to be missed", || fixture.site.status()["away"]["queue"].is_string());
    fixture.operate("resume");
    fixture.assert_waits_for("queue");
    fixture.queue.start_again(&SLOW);
    eventually("it to be there again", || fixture.site.status()["away"]["queue"].is_null());
    fixture.await_more();
    fixture.assert_nobody_restarted();
    let of_the_tcn = fixture.all.tangles[0].1.pow(2);
    fixture.ends(of_the_tcn + CHUNK);
}

/// The lease's renewal finds out, although nothing else is asked of the database.
#[test]
fn mongodb_is_missed_also_while_pushing_is_paused() {
    let mut fixture = Fixture::at_work();
    fixture.pause();
    fixture.database.kill_nine();
    eventually("the database to be missed", || fixture.site.status()["away"]["database"].is_string());
    fixture.database.start_again();
    eventually("it to be there again", || fixture.site.status()["away"]["database"].is_null());
    fixture.operate("resume");
    fixture.assert_nobody_restarted();
    fixture.ends(CHUNK);
}

#[test]
fn mongodb_may_be_gone_for_a_while() {
    let mut fixture = Fixture::at_work();
    fixture.database.kill_nine();
    fixture.assert_waits_for("database");
    fixture.database.start_again();
    eventually("it to be there again", || fixture.site.status()["away"]["database"].is_null());
    fixture.await_more();
    fixture.assert_nobody_restarted();
    fixture.ends(CHUNK);
}

/// It starts before its peers, and works when they are there.
#[test]
fn it_starts_while_both_are_away() {
    let (mut database, mut queue) = (MongoDb::start(), Faktory::start(&[]));
    let small = Tanglenomicon::small();
    small.fill(&database);
    database.kill_nine();
    queue.kill_nine();
    let site = ProducerEnv::new(BINARY, &database, &queue).set("producer.page_size=2");
    let instance = site.start();
    eventually("the database to be missed", || site.status()["away"]["database"].is_string());
    database.start_again();
    queue.start_again(&[]);
    let _worker = FaktoryWorker::start(&queue, "arborescent");
    eventually("all to be done", || site.status()["phase"] == "finished");
    assert_eq!(queue.accepted().len(), small.jobs(2).len());
    assert!(instance.terminate().success(), "{}", site.base().log());
}
