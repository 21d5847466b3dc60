//! Two producers of one database: one works, the other takes over when the first ends.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Faktory, FaktoryWorker, Instance, MongoDb, ProducerEnv, Tanglenomicon, eventually,
};
use rustix::process::Signal;
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const CHUNK: u64 = 10;
const LEASE: Duration = Duration::from_secs(4);
/// Time to start pushing after the lease ends, on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

/// Enough jobs for some seconds, with a slow server.
struct Fixture {
    all: Tanglenomicon,
    database: MongoDb,
    queue: Faktory,
}

impl Fixture {
    fn new() -> Self {
        let (database, queue) = (MongoDb::start(), Faktory::start(&["--push-latency-ms", "40"]));
        let all = Tanglenomicon { tangles: vec![(2, 26), (3, 16)], ..Tanglenomicon::small() };
        all.fill(&database);
        Self { all, database, queue }
    }

    fn site(&self) -> ProducerEnv {
        self.site_with_lease(LEASE)
    }

    fn site_with_lease(&self, lease: Duration) -> ProducerEnv {
        ProducerEnv::new(BINARY, &self.database, &self.queue)
            .set("producer.page_size=1")
            .set(&format!("producer.chunk={CHUNK}"))
            .set(&format!("producer.lease_ms={}", lease.as_millis()))
            .set("producer.until_done=true")
    }

    fn taken(&self) -> usize {
        self.queue.accepted().len()
    }

    /// Checks that every job was pushed. Returns how many are repeated.
    fn repeated(&self) -> u64 {
        let taken: Vec<String> = self.queue.accepted().iter().map(|job| job["args"].to_string()).collect();
        let wanted: BTreeSet<String> = self.all.jobs(1).iter().map(Value::to_string).collect();
        assert_eq!(taken.iter().cloned().collect::<BTreeSet<_>>(), wanted);
        (taken.len() - wanted.len()) as u64
    }
}

fn assert_exits_with_0(mut instance: Instance, site: &ProducerEnv) {
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
}

/// Starts one producer that works and one on standby.
fn pair(fixture: &Fixture) -> [(ProducerEnv, Instance); 2] {
    let first = fixture.site();
    let working = first.start();
    eventually("the first to push", || fixture.taken() > 0);
    let second = fixture.site();
    let waiting = second.start();
    eventually("the second to wait", || second.status()["phase"] == "standby");
    let before = fixture.taken();
    eventually("the first to go on", || fixture.taken() > before + 5 * CHUNK as usize);
    let status = second.status();
    assert_eq!(status["phase"], "standby", "{status:#}");
    assert!(
        status["blocked_by"][0].as_str().is_some_and(|text| text.contains("another producer")),
        "{status:#}"
    );
    let (code, out, err) = second.base().cli(&["why", "producer"]);
    assert!(
        code == 0 && out.contains("1. producer/stencil_producer: another producer has the lease"),
        "{out}{err}"
    );
    [(first, working), (second, waiting)]
}

/// The lease is longer than any wait of this test.
#[test]
fn a_killed_producer_that_starts_again_takes_its_own_lease_at_once() {
    let fixture = Fixture::new();
    let site = fixture.site_with_lease(Duration::from_secs(600));
    let first = site.start();
    eventually("the first to push", || fixture.taken() > 0);
    first.kill_nine();
    let killed = Instant::now();
    let second = site.start();
    let before = fixture.taken();
    eventually("the second to push", || fixture.taken() > before + CHUNK as usize);
    eprintln!("pushed again after {:?}", killed.elapsed());
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    assert_exits_with_0(second, &site);
    assert!(fixture.repeated() <= CHUNK, "{} twice", fixture.repeated());
}

#[test]
fn the_standby_takes_over_from_a_killed_producer_after_its_lease() {
    let fixture = Fixture::new();
    let [(_first, working), (second, waiting)] = pair(&fixture);
    working.kill_nine();
    let killed = Instant::now();
    eventually("the second to push", || second.status()["phase"] == "pushing");
    let took = killed.elapsed();
    eprintln!("taken over after {took:?}, of a lease of {LEASE:?}");
    assert!(took < LEASE + SLACK, "{took:?}");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    assert_exits_with_0(waiting, &second);
    assert!(fixture.repeated() <= CHUNK, "{} twice", fixture.repeated());
}

/// A stop releases the lease, so the standby takes over at once and repeats no job.
#[test]
fn the_standby_takes_over_at_once_from_a_stopped_producer() {
    let fixture = Fixture::new();
    let [(first, working), (second, waiting)] = pair(&fixture);
    assert!(working.terminate().success(), "{}", first.base().log());
    eventually("the second to push", || second.status()["phase"] == "pushing");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    assert_exits_with_0(waiting, &second);
    assert_eq!(fixture.repeated(), 0);
}

/// A process that was suspended until another took its lease pushes nothing and goes on standby.
#[test]
fn a_suspended_producer_that_lost_its_lease_goes_on_standby() {
    let fixture = Fixture::new();
    let [(first, working), (second, waiting)] = pair(&fixture);
    working.signal(Signal::STOP);
    eventually("the second to push", || second.status()["phase"] == "pushing");
    working.signal(Signal::CONT);
    eventually("the first to notice", || first.status()["phase"] == "standby");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    assert_exits_with_0(waiting, &second);
    // The chunk in flight when it was suspended, and one that it pushes before it renews its lease.
    assert!(fixture.repeated() <= 2 * CHUNK, "{} twice", fixture.repeated());
    assert_exits_with_0(working, &first);
}

/// The lease depends on the database's clock and the process's steady clock, so a jump of the wall clock has
/// no effect.
#[test]
fn a_wall_clock_jump_does_not_affect_the_lease() {
    let fixture = Fixture::new();
    let first = fixture.site();
    let offset = first.base().path().join("offset");
    let jump = |to: &str| {
        let new = offset.with_extension("new");
        fs::write(&new, to).expect("it is written");
        fs::rename(new, &offset).expect("it is replaced at once");
    };
    jump("+0");
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").map_while(Result::ok);
    let mut libraries = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let library =
        libraries.find(|path| path.exists()).expect("libfaketimeMT.so.1 is missing: install faketime");
    let mut command = first.command();
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &offset).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    let working = Instance::spawn(command);
    eventually("the first to push", || fixture.taken() > 0);
    let second = fixture.site();
    let waiting = second.start();
    for to in ["+1h", "-1h", "+0"] {
        eventually("the second to wait", || second.status()["phase"] == "standby");
        jump(to);
        // Longer than the lease.
        let (jumped, before) = (Instant::now(), fixture.taken());
        eventually("the first to go on", || {
            jumped.elapsed() > LEASE + Duration::from_secs(1) && fixture.taken() > before
                || first.status()["phase"] != "pushing"
        });
        assert_eq!(second.status()["phase"], "standby", "{to}");
    }
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    assert_exits_with_0(working, &first);
    assert_exits_with_0(waiting, &second);
    assert_eq!(fixture.repeated(), 0);
}
