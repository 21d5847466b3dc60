//! A producer that is killed at any moment before a queue that cuts connections and loses replies, many times: every pair of pages
//! becomes a job, and what is pushed twice is what nobody could know of.
//!
//! - *Complete*: the arguments of the jobs that the queue has taken are those of all pairs of all stencils, no more and no less.
//! - *Repeated* is a pair that was taken more than once. Allowed is a chunk for each reply that was lost, and one for each
//!   connection and kill: what was on its way then. A kill between two chunks repeats nothing.
//! - *Ended*: it always comes to its end, and its documents say so.
//! - No `jid` is used twice, whatever is repeated: the queue would not notice, and count it as at work for half an hour.

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
/// The original's: one job at a time, so many of which came through before a connection was cut.
const JOBS_BEFORE_A_CUT: u64 = 250;
const LOST_REPLY: u64 = 10;

/// Three stencils of two targets, `pages` pairs of pages or a few more.
fn stencils(pairs: u64, rng: &mut SeededRng) -> Tanglenomicon {
    let roots = 12 + rng.below(20) as u64;
    let scions = (pairs.saturating_sub(roots * roots) / (2 * roots)).max(3);
    Tanglenomicon { tangles: vec![(2, roots), (3, scions)], ..Tanglenomicon::small() }
}

/// Checks the documents and the jobs; a pair's key is its own. Gives how many jobs are repeated.
fn judge(all: &Tanglenomicon, database: &MongoDb, queue: &Faktory) -> u64 {
    let accepted = queue.accepted();
    let text = |of: &'static str| accepted.iter().map(move |job| job.pointer(of).expect(of).to_string());
    let wanted: BTreeSet<_> = all.jobs(1).iter().map(ToString::to_string).collect();
    let args: BTreeSet<_> = text("/args").collect();
    let (lost, strange) = (wanted.difference(&args).count(), args.difference(&wanted).count());
    assert_eq!((lost, strange), (0, 0), "lost, and never asked for, of {}", wanted.len());
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

fn ends_well(mut instance: Instance, site: &ProducerEnv) {
    assert_eq!(instance.wait().code(), Some(0), "{}", site.base().log());
}

#[test]
fn kills_cuts_and_lost_replies_lose_no_job_and_repeat_a_chunk_each_at_the_most() {
    for_each_seed("ORCHESTRATOR_PRODUCER_KILL_ROUNDS", 4, round);
}

fn round(seed: u64) {
    let began = Instant::now();
    let mut rng = SeededRng::new(seed);
    let chunk = [5, 25, 50, 100][rng.below(4)];
    let connections = 1 + rng.below(3) as u64;
    // A cut's turn must not always be a lost reply's, too, nor the other way round: only one of them happens.
    let hides = |cut: &u64| cut.is_multiple_of(LOST_REPLY) || LOST_REPLY.is_multiple_of(*cut);
    let cut = (JOBS_BEFORE_A_CUT / chunk..).find(|cut| !hides(cut)).expect("three, at the latest");
    let (cut, lost) = (cut.to_string(), LOST_REPLY.to_string());
    let queue = Faktory::start(&["--dup-report", "--cut-push-every", &cut, "--lose-reply-every", &lost]);
    let database = MongoDb::start();
    let all = stencils(JOBS_BEFORE_A_CUT * 4, &mut rng);
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
        await_pushes(&queue, rng.below(6) as u64 * chunk, &mut instance);
        sleep(Duration::from_micros(rng.below(30_000) as u64));
        if instance.ended().is_none() {
            instance.kill_nine();
            kills += 1;
        }
    }
    ends_well(Instance::spawn(site.command()), &site);

    let repeated = judge(&all, &database, &queue);
    let lost = queue.info()["test"]["lost_replies"].as_u64().expect("a number");
    let allowed = chunk * (lost + kills * connections);
    eprintln!(
        "seed {seed}: {kills} kills, {lost} lost replies, chunks of {chunk} over {connections}: {} jobs, {repeated} repeated, {allowed} allowed, {:?}",
        all.jobs(1).len(),
        began.elapsed()
    );
    assert!(repeated <= allowed, "{repeated} repeated, allowed are {allowed}");
}

/// Waits until `more` jobs have been taken since now: what a life is worth. Until then it may wait for the dead one's lease. Some lives
/// end of themselves before.
fn await_pushes(queue: &Faktory, more: u64, instance: &mut Instance) {
    let before = queue.accepted().len() as u64;
    eventually("jobs, or the end", || {
        queue.accepted().len() as u64 >= before + more || instance.ended().is_some()
    });
}

/// At its high mark it pushes nothing: what it has pushed is written down, and a kill then repeats none of it.
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
    ends_well(Instance::spawn(site.command()), &site);
    assert_eq!(judge(&all, &database, &queue), 0);
}
