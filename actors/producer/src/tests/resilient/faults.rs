//! Failed calls, lost replies, refusals and kills.

use fastrand::Rng;
use orchestrator_harness::rounds;

use super::*;
use orchestrator_producer_rules::advance::Action;

use crate::tests::simulation::{End, Fault, run, settings};

/// Runs one producer after the other until one finishes. Returns how many were killed.
async fn run_until_finished(simulation: &Rc<RefCell<Simulation>>, page_size: u32, chunk: usize) -> u32 {
    for killed in 0.. {
        let settings = settings(false, page_size, chunk, &format!("p{killed}"));
        match run(machine(page_size), settings, &process(simulation)).await {
            End::Returned(Action::Finish) => return killed,
            End::Killed => {}
            end => panic!("{end:?}"),
        }
    }
    unreachable!("the loop returns")
}

#[tokio::test(start_paused = true)]
async fn faults_lose_no_job_and_repeat_only_ambiguous_chunks() {
    let (mut kills, mut ambiguous, mut duplicates) = (0, 0, 0);
    for seed in 0..rounds("ORCHESTRATOR_PRODUCER_SEEDS", 100) {
        let mut rng = Rng::with_seed(seed);
        let counts: Vec<u64> = (0..4).map(|_| rng.u64(1..80)).collect();
        let mut sums: Vec<(i64, i64)> =
            (0..4).flat_map(|root| (1..4).map(move |scion| (root, scion))).collect();
        rng.shuffle(&mut sums);
        let stencils = sums.into_iter().take(rng.usize(1..8)).enumerate();
        let stencils: Vec<Stencil> =
            stencils.map(|(number, (root, scion))| stencil(number as u64, root, scion)).collect();
        let mut made = simulation_with(&counts, &stencils, rng.i64(0..3), 6);
        // Each set has a good tangle; sets without one are tested elsewhere.
        made.sets.entry(Set::Scion { tcn: 1 }).or_default().insert(id(2_000));
        for tcn in 1..4 {
            made.insert(id(90_000 + tcn), tcn as i64, true);
        }
        for _ in 0..rng.usize(..30) {
            let faults = [Fault::Cut, Fault::LostReply, Fault::KillBefore, Fault::KillAfter, Fault::Refuse];
            made.faults.insert(rng.u64(1..500), *rng.choice(&faults).unwrap());
        }
        let simulation = Rc::new(RefCell::new(made));
        let (page_size, chunk) = (rng.u32(1..9), rng.usize(1..40));
        kills += run_until_finished(&simulation, page_size, chunk).await;
        let simulation = simulation.borrow();
        assert_complete(&simulation, page_size, &format!("seed {seed}"));
        let most = simulation.ambiguous as usize * chunk;
        assert!(
            simulation.duplicates() <= most,
            "seed {seed}: {} duplicates, {most} at the most",
            simulation.duplicates()
        );
        ambiguous += simulation.ambiguous;
        duplicates += simulation.duplicates();
    }
    assert!(
        kills > 0 && ambiguous > 0 && duplicates > 0,
        "{kills} kills, {ambiguous} ambiguous chunks, {duplicates} duplicates"
    );
}

/// Flaws 2 and 3: the original starts a stencil over after each failure.
#[tokio::test(start_paused = true)]
async fn flaw_2_and_3_failed_calls_repeat_nothing() {
    let mut made = simulation_with(&[0, 0, 200, 200], &[stencil(1, 2, 3)], 4, 5);
    made.faults.extend((1..2_000).filter(|call| call % 3 == 0).map(|call| (call, Fault::Cut)));
    let simulation = Rc::new(RefCell::new(made));
    run_until_finished(&simulation, 2, 10).await;
    assert_complete(&simulation.borrow(), 2, "cuts");
    assert_eq!(simulation.borrow().duplicates(), 0);
}

/// A kill between two chunks repeats no job, at any call.
#[tokio::test(start_paused = true)]
async fn a_kill_between_chunks_repeats_nothing() {
    let make = || simulation_with(&[0, 0, 9, 40], &[stencil(1, 2, 3)], 4, 5);
    let calm = Rc::new(RefCell::new(make()));
    run_until_finished(&calm, 1, 7).await;
    let calls = calm.borrow().calls;
    let mut harmless = 0;
    for at in 1..=calls {
        let simulation = Rc::new(RefCell::new(make()));
        simulation.borrow_mut().faults.insert(at, Fault::KillBefore);
        assert_eq!(run_until_finished(&simulation, 1, 7).await, 1, "killed at call {at}");
        let simulation = simulation.borrow();
        assert_complete(&simulation, 1, &format!("killed at call {at}"));
        // Between acknowledgement and cursor, one chunk may be repeated.
        let most = if simulation.ambiguous == 0 { 0 } else { 7 };
        assert!(simulation.duplicates() <= most, "killed at call {at}: {}", simulation.duplicates());
        harmless += u64::from(simulation.ambiguous == 0);
    }
    assert!(harmless > calls / 2 && harmless < calls, "{harmless} of {calls}");
}

/// A stop records the chunk in flight, so the next start repeats no job.
#[tokio::test(start_paused = true)]
async fn a_stop_repeats_nothing() {
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 60, 60], &[stencil(1, 2, 3)], 4, 5)));
    let bounded = orchestrator_producer_rules::watermark::WaterMarks { high: 100, low: 20 };
    for holder in 0..1_000 {
        // Each process stops at its first wait.
        let stopping = SimulatedProcess::new(&simulation, |simulation| {
            simulation.complete_jobs();
            false
        });
        let mut settings = settings(false, 1, 30, &format!("p{holder}"));
        settings.marks = bounded;
        if run(machine(1), settings, &stopping).await != End::Stopped {
            break;
        }
        // The lease of the stopped process ends.
        tokio::time::sleep(std::time::Duration::from_secs(31)).await;
        if simulation.borrow().stencils[&id(1)].state == State::Complete {
            break;
        }
    }
    assert_complete(&simulation.borrow(), 1, "stops");
    assert_eq!(simulation.borrow().duplicates(), 0);
}

/// Flaw 1: jobs that the server lost are pushed again.
#[tokio::test(start_paused = true)]
async fn flaw_1_flushed_jobs_are_pushed_again() {
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 20, 20], &[stencil(1, 2, 3)], 4, 5)));
    let flushed = std::cell::Cell::new(false);
    let flushing = SimulatedProcess::new(&simulation, move |simulation| {
        if flushed.replace(true) {
            simulation.complete_jobs();
        } else {
            simulation.queue_state.queues.clear();
            simulation.pushed.clear();
        }
        true
    });
    assert_eq!(run(machine(2), settings(false, 2, 10, "p"), &flushing).await, End::Returned(Action::Finish));
    assert_complete(&simulation.borrow(), 2, "after a flush");
}
