//! Cuts, lost replies, refusals, kills.

use fastrand::Rng;
use orchestrator_harness::rounds;
use orchestrator_producer::advance::Action;

use super::*;
use crate::world::{End, Fault, live, settings};

/// Producers one after the other, until one says that all is done. Gives how many were killed.
async fn live_on(world: &Rc<RefCell<World>>, page_size: u32, chunk: usize) -> u32 {
    for killed in 0.. {
        let settings = settings(false, page_size, chunk, &format!("p{killed}"));
        match live(machine(page_size), settings, &process(world)).await {
            End::Said(Action::Finish) => return killed,
            End::Killed => {}
            end => panic!("{end:?}"),
        }
    }
    unreachable!("it always finishes")
}

#[tokio::test(start_paused = true)]
async fn accidents_lose_nothing_and_repeat_only_what_nobody_can_know() {
    let (mut kills, mut unsure, mut duplicates) = (0, 0, 0);
    for seed in 0..rounds("ORCHESTRATOR_PRODUCER_SEEDS", 100) {
        let mut rng = Rng::with_seed(seed);
        let counts: Vec<u64> = (0..4).map(|_| rng.u64(1..80)).collect();
        let mut sums: Vec<(i64, i64)> =
            (0..4).flat_map(|root| (1..4).map(move |scion| (root, scion))).collect();
        rng.shuffle(&mut sums);
        let stencils = sums.into_iter().take(rng.usize(1..8)).enumerate();
        let stencils: Vec<Stencil> =
            stencils.map(|(number, (root, scion))| stencil(number as u64, root, scion)).collect();
        let mut made = world_with(&counts, &stencils, rng.i64(0..3), 6);
        // A set without good tangles has no jobs; it is tried elsewhere.
        made.sets.entry(Set::Scion { tcn: 1 }).or_default().insert(id(2_000));
        for tcn in 1..4 {
            made.insert(id(90_000 + tcn), tcn as i64, true);
        }
        for _ in 0..rng.usize(..30) {
            let faults = [Fault::Cut, Fault::LostReply, Fault::KillBefore, Fault::KillAfter, Fault::Refuse];
            made.faults.insert(rng.u64(1..500), *rng.choice(&faults).unwrap());
        }
        let world = Rc::new(RefCell::new(made));
        let (page_size, chunk) = (rng.u32(1..9), rng.usize(1..40));
        kills += live_on(&world, page_size, chunk).await;
        let world = world.borrow();
        assert_complete(&world, page_size, &format!("seed {seed}"));
        let most = world.unsure as usize * chunk;
        assert!(
            world.duplicates() <= most,
            "seed {seed}: {} duplicates, {most} at the most",
            world.duplicates()
        );
        unsure += world.unsure;
        duplicates += world.duplicates();
    }
    assert!(
        kills > 0 && unsure > 0 && duplicates > 0,
        "{kills} kills, {unsure} unsure, {duplicates} duplicates"
    );
}

/// Flaws 2 and 3: the original, cut every 250 pushes, never comes to an end.
#[tokio::test(start_paused = true)]
async fn flaw_2_and_3_a_cut_before_every_other_chunk_repeats_nothing() {
    let mut made = world_with(&[0, 0, 200, 200], &[stencil(1, 2, 3)], 4, 5);
    made.faults.extend((1..2_000).filter(|call| call % 3 == 0).map(|call| (call, Fault::Cut)));
    let world = Rc::new(RefCell::new(made));
    live_on(&world, 2, 10).await;
    assert_complete(&world.borrow(), 2, "cuts");
    assert_eq!(world.borrow().duplicates(), 0);
}

/// Killed between two chunks, wherever: nothing is pushed twice.
#[tokio::test(start_paused = true)]
async fn a_kill_between_chunks_repeats_nothing() {
    let make = || world_with(&[0, 0, 9, 40], &[stencil(1, 2, 3)], 4, 5);
    let calm = Rc::new(RefCell::new(make()));
    live_on(&calm, 1, 7).await;
    let calls = calm.borrow().calls;
    let mut harmless = 0;
    for at in 1..=calls {
        let world = Rc::new(RefCell::new(make()));
        world.borrow_mut().faults.insert(at, Fault::KillBefore);
        assert_eq!(live_on(&world, 1, 7).await, 1, "killed at call {at}");
        let world = world.borrow();
        assert_complete(&world, 1, &format!("killed at call {at}"));
        // Killed between acknowledgement and note, one chunk is unsure.
        let most = if world.unsure == 0 { 0 } else { 7 };
        assert!(world.duplicates() <= most, "killed at call {at}: {}", world.duplicates());
        harmless += u64::from(world.unsure == 0);
    }
    assert!(harmless > calls / 2 && harmless < calls, "{harmless} of {calls}");
}

/// A stop lets the chunk in hand be noted: the next start repeats nothing.
#[tokio::test(start_paused = true)]
async fn a_stop_repeats_nothing() {
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 60, 60], &[stencil(1, 2, 3)], 4, 5)));
    let bounded = orchestrator_producer::watermark::WaterMarks { high: 100, low: 20 };
    for holder in 0..1_000 {
        // The first wait of each is its last.
        let stopping = Process::new(&world, |world| {
            world.work_off();
            false
        });
        let mut settings = settings(false, 1, 30, &format!("p{holder}"));
        settings.marks = bounded;
        if live(machine(1), settings, &stopping).await != End::Stopped {
            break;
        }
        // Its lease ends, for it did not leave.
        tokio::time::sleep(std::time::Duration::from_secs(31)).await;
        if world.borrow().stencils[&id(1)].state == State::Complete {
            break;
        }
    }
    assert_complete(&world.borrow(), 1, "stops");
    assert_eq!(world.borrow().duplicates(), 0);
}

/// Flaw 1: a server that forgets its jobs gets them again.
#[tokio::test(start_paused = true)]
async fn flaw_1_a_flush_is_noticed() {
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 20, 20], &[stencil(1, 2, 3)], 4, 5)));
    let flushed = std::cell::Cell::new(false);
    let flushing = Process::new(&world, move |world| {
        if flushed.replace(true) {
            world.work_off();
        } else {
            world.reading.queues.clear();
            world.pushed.clear();
        }
        true
    });
    assert_eq!(live(machine(2), settings(false, 2, 10, "p"), &flushing).await, End::Said(Action::Finish));
    assert_complete(&world.borrow(), 2, "after a flush");
}
