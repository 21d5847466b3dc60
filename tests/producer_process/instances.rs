//! Two producers before one database: one works, the other waits; when the first is killed, the second takes over.

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
/// What starting to push takes beside a lease's end on a machine that is busy.
const SLACK: Duration = Duration::from_secs(20);

/// Enough jobs for a while, with a server that takes its time.
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
        ProducerEnv::new(BINARY, &self.database, &self.queue)
            .set("producer.page_size=1")
            .set(&format!("producer.chunk={CHUNK}"))
            .set(&format!("producer.lease_ms={}", LEASE.as_millis()))
            .set("producer.until_done=true")
    }

    fn taken(&self) -> usize {
        self.queue.accepted().len()
    }

    /// Every pair became a job; gives how many of them more than once.
    fn repeated(&self) -> u64 {
        let taken: Vec<String> = self.queue.accepted().iter().map(|job| job["args"].to_string()).collect();
        let wanted: BTreeSet<String> = self.all.jobs(1).iter().map(Value::to_string).collect();
        assert_eq!(taken.iter().cloned().collect::<BTreeSet<_>>(), wanted);
        (taken.len() - wanted.len()) as u64
    }
}

fn ends_well(mut instance: Instance, site: &ProducerEnv) {
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
}

/// One that works, and one that waits for it.
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
    [(first, working), (second, waiting)]
}

#[test]
fn the_second_takes_over_from_one_that_is_killed_within_its_lease() {
    let fixture = Fixture::new();
    let [(_first, working), (second, waiting)] = pair(&fixture);
    working.kill_nine();
    let killed = Instant::now();
    eventually("the second to push", || second.status()["phase"] == "pushing");
    let took = killed.elapsed();
    eprintln!("taken over after {took:?}, of a lease of {LEASE:?}");
    assert!(took < LEASE + SLACK, "{took:?}");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    ends_well(waiting, &second);
    assert!(fixture.repeated() <= CHUNK, "{} twice", fixture.repeated());
}

/// A stop gives the lease back: nobody waits for it, and nothing is repeated.
#[test]
fn the_second_takes_over_at_once_from_one_that_is_stopped() {
    let fixture = Fixture::new();
    let [(first, working), (second, waiting)] = pair(&fixture);
    assert!(working.terminate().success(), "{}", first.base().log());
    eventually("the second to push", || second.status()["phase"] == "pushing");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    ends_well(waiting, &second);
    assert_eq!(fixture.repeated(), 0);
}

/// One that stood still until another had its lease pushes nothing when it goes on: it waits like everybody else.
#[test]
fn one_that_lost_its_lease_while_it_stood_still_waits_for_the_other() {
    let fixture = Fixture::new();
    let [(first, working), (second, waiting)] = pair(&fixture);
    working.signal(Signal::STOP);
    eventually("the second to push", || second.status()["phase"] == "pushing");
    working.signal(Signal::CONT);
    eventually("the first to notice", || first.status()["phase"] == "standby");
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    ends_well(waiting, &second);
    // What it had sent when it was stopped, and one chunk that it sends before it asks for its lease.
    assert!(fixture.repeated() <= 2 * CHUNK, "{} twice", fixture.repeated());
    ends_well(working, &first);
}

/// The lease is counted by the database's clock and by a steady one of the process: set by an hour, the wall clock of the one that
/// works changes nothing.
#[test]
fn a_wall_clock_that_jumps_neither_loses_the_lease_nor_shares_it() {
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
        // Longer than its lease.
        let (jumped, before) = (Instant::now(), fixture.taken());
        eventually("the first to go on", || {
            jumped.elapsed() > LEASE + Duration::from_secs(1) && fixture.taken() > before
                || first.status()["phase"] != "pushing"
        });
        assert_eq!(second.status()["phase"], "standby", "{to}");
    }
    let _worker = FaktoryWorker::start(&fixture.queue, "arborescent");
    ends_well(working, &first);
    ends_well(waiting, &second);
    assert_eq!(fixture.repeated(), 0);
}
