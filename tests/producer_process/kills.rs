//! Producer that is killed at random times, with a queue that closes connections and loses replies.
//!
//! - The queue has exactly the jobs of all pairs of all stencils.
//! - Repeated jobs: at most one chunk for each lost reply, and one for each connection at each kill. A kill
//!   between two chunks repeats none.
//! - The producer always ends, and all documents are complete.
//! - No jid is used twice: the queue would count one of the two jobs as working for half an hour.

use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    DATABASE, Faktory, FaktoryWorker, Instance, MongoDb, ProducerEnv, STENCILS, Tanglenomicon, eventually,
    load::{SeededRng, for_each_seed},
};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Jobs between two closed connections, as in the test of the original.
const JOBS_BETWEEN_CUTS: u64 = 250;
const LOST_REPLY_INTERVAL: u64 = 10;

/// Three stencils of two TCNs with at least `pairs` pairs of pages.
fn stencils(pairs: u64, rng: &mut SeededRng) -> Tanglenomicon {
    let roots = 12 + rng.below(20) as u64;
    let scions = (pairs.saturating_sub(roots * roots) / (2 * roots)).max(3);
    Tanglenomicon { tangles: vec![(2, roots), (3, scions)], ..Tanglenomicon::small() }
}

/// Checks the documents and the jobs. Returns how many jobs are repeated.
fn check(all: &Tanglenomicon, database: &MongoDb, queue: &Faktory) -> u64 {
    let accepted = queue.accepted();
    let text = |of: &'static str| accepted.iter().map(move |job| job.pointer(of).expect(of).to_string());
    let wanted: BTreeSet<_> = all.jobs(1).iter().map(ToString::to_string).collect();
    let args: BTreeSet<_> = text("/args").collect();
    let (lost, unexpected) = (wanted.difference(&args).count(), args.difference(&wanted).count());
    assert_eq!((lost, unexpected), (0, 0), "lost and unexpected jobs, of {}", wanted.len());
    assert_eq!(text("/jid").collect::<BTreeSet<_>>().len(), accepted.len(), "a jid was used twice");
    assert_eq!(text("/custom/key").collect::<BTreeSet<_>>().len(), wanted.len(), "a key for each pair");
    for document in database.documents(DATABASE, STENCILS) {
        if document["_id"] == "config" {
            assert_eq!(document["current_completed_tcn"], all.completed_and_max.1, "{document}");
        } else {
            assert_eq!(document["state"], 3, "{document}");
        }
    }
    (accepted.len() - wanted.len()) as u64
}

fn assert_exits_with_0(mut instance: Instance, site: &ProducerEnv) {
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
}

#[test]
fn kills_and_lost_replies_lose_no_job_and_repeat_one_chunk_each() {
    for_each_seed("ORCHESTRATOR_PRODUCER_KILL_ROUNDS", 4, round);
}

fn round(seed: u64) {
    let began = Instant::now();
    let mut rng = SeededRng::new(seed);
    let chunk = [5, 25, 50, 100][rng.below(4)];
    let connections = 1 + rng.below(3) as u64;
    // No command may be due for both faults, since only one of them would happen.
    let coincides =
        |cut: &u64| cut.is_multiple_of(LOST_REPLY_INTERVAL) || LOST_REPLY_INTERVAL.is_multiple_of(*cut);
    let cut = (JOBS_BETWEEN_CUTS / chunk..).find(|cut| !coincides(cut)).expect("three, at the latest");
    let (cut, lost) = (cut.to_string(), LOST_REPLY_INTERVAL.to_string());
    let queue = Faktory::start(&["--dup-report", "--cut-push-every", &cut, "--lose-reply-every", &lost]);
    let database = MongoDb::start();
    let all = stencils(JOBS_BETWEEN_CUTS * 4, &mut rng);
    all.fill(&database);
    let _worker = FaktoryWorker::start(&queue, "arborescent");
    let site = ProducerEnv::new(BINARY, &database, &queue)
        .set("producer.page_size=1")
        .set(&format!("producer.chunk={chunk}"))
        .set(&format!("producer.connections={connections}"))
        .set("producer.lease_ms=3000")
        .set("producer.until_done=true");

    let mut kills = 0;
    for _ in 0..1 + rng.below(3) {
        let mut instance = Instance::spawn(site.command());
        wait_for_jobs(&queue, rng.below(6) as u64 * chunk, &mut instance);
        sleep(Duration::from_micros(rng.below(30_000) as u64));
        if instance.ended().is_none() {
            instance.kill_nine();
            kills += 1;
        }
    }
    assert_exits_with_0(Instance::spawn(site.command()), &site);

    let repeated = check(&all, &database, &queue);
    let lost = queue.info()["test"]["lost_replies"].as_u64().expect("a number");
    let allowed = chunk * (lost + kills * connections);
    eprintln!(
        "seed {seed}: {kills} kills, {lost} lost replies, chunks of {chunk} over {connections}: {} jobs, {repeated} repeated, {allowed} allowed, {:?}",
        all.jobs(1).len(),
        began.elapsed()
    );
    assert!(repeated <= allowed, "{repeated} repeated, allowed are {allowed}");
}

/// Waits for `more` jobs or the end of the instance. It may first wait for the lease of a killed one.
fn wait_for_jobs(queue: &Faktory, more: u64, instance: &mut Instance) {
    let before = queue.accepted().len() as u64;
    eventually("jobs, or the end", || {
        queue.accepted().len() as u64 >= before + more || instance.ended().is_some()
    });
}

/// At the high mark all pushed chunks are recorded, so a kill repeats none.
#[test]
fn a_kill_between_two_chunks_repeats_nothing() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    let all = Tanglenomicon { tangles: vec![(2, 14), (3, 9)], ..Tanglenomicon::small() };
    all.fill(&database);
    let held_at = |high: u64| {
        ProducerEnv::new(BINARY, &database, &queue)
            .set("producer.page_size=1")
            .set("producer.chunk=10")
            .set("producer.lease_ms=3000")
            .set(&format!("producer.high_water={high}"))
            .set(&format!("producer.low_water={}", high - 1))
            .set("producer.until_done=true")
    };
    for high in [35, 80, 150] {
        let site = held_at(high);
        let instance = site.start();
        eventually("the high mark", || site.status()["held"] == true);
        let taken = queue.accepted().len() as u64;
        assert!((high - 10..=high).contains(&taken), "{taken} jobs at a high mark of {high}");
        instance.kill_nine();
    }
    let _worker = FaktoryWorker::start(&queue, "arborescent");
    let site = held_at(10_000);
    assert_exits_with_0(Instance::spawn(site.command()), &site);
    assert_eq!(check(&all, &database, &queue), 0);
}
