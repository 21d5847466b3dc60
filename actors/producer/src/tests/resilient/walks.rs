//! Pages of sets that change or do not change, and water marks.

use std::cell::Cell;

use super::*;
use orchestrator_producer_rules::{advance::Action, watermark::WaterMarks};

use crate::tests::simulation::{self, End, run, settings};

async fn finish(simulation: &Rc<RefCell<Simulation>>, page_size: u32, process: &SimulatedProcess) {
    let end = run(machine(page_size), settings(false, page_size, 50, "p"), process).await;
    assert_eq!(end, End::Returned(Action::Finish), "{:?}", simulation.borrow().config);
}

/// Flaw 12: the pages of an unchanged set are read once.
#[tokio::test(start_paused = true)]
async fn flaw_12_cached_pages_are_not_read_again() {
    let stencils: Vec<Stencil> = (1..4)
        .flat_map(|root| (1..4).map(move |scion| stencil((root * 10 + scion) as u64, root, scion)))
        .collect();
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 30, 30, 30], &stencils, 1, 6)));
    finish(&simulation, 2, &process(&simulation)).await;
    assert_complete(&simulation.borrow(), 2, "cached");
    // Three sets of 15 pages and three of 10, each read once; the end of a set is one more read.
    assert_eq!(simulation.borrow().seeks, 3 * (15 + 1) + 3 * (10 + 1));
}

/// A set that grows by more than a page between two TCNs is read again.
#[tokio::test(start_paused = true)]
async fn tangles_inserted_between_two_tcns_are_covered() {
    let stencils = [stencil(1, 2, 2), stencil(2, 2, 3)];
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 9, 9], &stencils, 3, 5)));
    let come = Cell::new(false);
    let growing = SimulatedProcess::new(&simulation, move |simulation| {
        simulation.complete_jobs();
        if !come.replace(true) {
            for number in [1, 2, 3_050, 3_500, 9_999] {
                simulation.insert(id(number), 2, true);
            }
        }
        true
    });
    finish(&simulation, 2, &growing).await;
    assert_eq!(simulation.borrow().sets[&Set::Rootstock { tcn: 2 }].len(), 14);
    assert_covered(&simulation.borrow(), 2);
}

/// Checks that every pair of tangles of every stencil is in a job, with pages as workers read them.
fn assert_covered(simulation: &Simulation, page_size: u32) {
    for stencil in simulation.stencils.values() {
        let sets = [stencil.roots(), stencil.scions()].map(|set| &simulation.sets[&set]);
        let page = |set: &BTreeSet<Id>, first: Id| -> Vec<Id> {
            set.range(first..).take(page_size as usize).copied().collect()
        };
        let mut grafted = BTreeSet::new();
        for (pair, _) in &simulation.pushed {
            if (pair.root_tcn, pair.scion_tcn) == (stencil.rootstock_tcn, stencil.scion_tcn) {
                for root in page(sets[0], pair.root_id) {
                    grafted.extend(page(sets[1], pair.scion_id).into_iter().map(|scion| (root, scion)));
                }
            }
        }
        assert_eq!(grafted.len(), sets[0].len() * sets[1].len(), "{stencil}");
    }
}

/// Flaw 10: a tangle inserted into a page moves another one out of it.
#[tokio::test(start_paused = true)]
async fn flaw_10_tangles_inserted_during_processing_are_covered() {
    for number in [0, 3_001, 3_005, 3_500] {
        let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 9, 9], &[stencil(1, 2, 3)], 4, 5)));
        let late = SimulatedProcess::new(&simulation, move |simulation| {
            simulation.insert(id(number), 2, true);
            simulation.complete_jobs();
            true
        });
        finish(&simulation, 2, &late).await;
        assert_covered(&simulation.borrow(), 2);
    }
}

/// Flaw 15: a stencil without jobs is checked at every tick, without counting its large set.
#[tokio::test(start_paused = true)]
async fn flaw_15_a_stencil_without_jobs_is_checked_cheaply_and_reopened() {
    let simulation =
        Rc::new(RefCell::new(simulation_with(&[0, 0, 9, 0, 5], &[stencil(1, 2, 3), stencil(2, 2, 4)], 4, 6)));
    let counts = Rc::new(RefCell::new(Vec::new()));
    let seen = counts.clone();
    let late = SimulatedProcess::new(&simulation, move |simulation| {
        simulation.complete_jobs();
        seen.borrow_mut().push((simulation.stencils[&id(1)].state, simulation.counts));
        // The set fills only after the last stencil of the last TCN is pushed.
        if simulation.stencils[&id(2)].state == State::Complete {
            simulation.insert(id(7), 3, true);
        }
        true
    });
    finish(&simulation, 2, &late).await;
    assert_complete(&simulation.borrow(), 2, "the stencil is taken up");
    let counts = counts.borrow();
    assert_eq!(counts[..2], [(State::NoHeadroom, 2), (State::NoHeadroom, 2 + 2)], "the other stencil's two");
}

/// Flaw 14: waiting jobs never exceed the high mark.
#[tokio::test(start_paused = true)]
async fn flaw_14_the_queue_stays_below_the_high_mark() {
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 90, 90], &[stencil(1, 2, 3)], 4, 5)));
    let slow = SimulatedProcess::new(&simulation, |simulation| {
        let length = simulation.queue_state.queues.entry("arborescent".to_owned()).or_default();
        let done = (*length).min(70);
        *length -= done;
        simulation.queue_state.processed += done;
        true
    });
    let mut settings = settings(false, 1, 40, "p");
    settings.marks = WaterMarks { high: 200, low: 50 };
    assert_eq!(run(machine(1), settings, &slow).await, End::Returned(Action::Finish));
    assert_complete(&simulation.borrow(), 1, "water marks");
    assert!((161..=200).contains(&simulation.borrow().longest), "{}", simulation.borrow().longest);
}

/// The first job is pushed before the last page is read.
#[tokio::test(start_paused = true)]
async fn the_first_jobs_are_pushed_before_all_pages_are_read() {
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 9, 900], &[stencil(1, 2, 3)], 4, 5)));
    // Pages read until the first push.
    let until = |simulation: &Rc<RefCell<Simulation>>| simulation.borrow().seeks;
    let early = Rc::new(Cell::new(None));
    let seen = early.clone();
    let watched = process(&simulation);
    let first = async {
        while simulation.borrow().pushed.is_empty() {
            tokio::task::yield_now().await;
        }
        seen.set(Some(until(&simulation)));
    };
    let running = run(machine(1), settings(false, 1, 1_000, "p"), &watched);
    // A refusal makes the producer wait, so that the watching task can run.
    simulation.borrow_mut().faults.extend((1..60).map(|call| (call, simulation::Fault::Refuse)));
    let (end, ()) = tokio::join!(running, first);
    assert_eq!(end, End::Returned(Action::Finish));
    assert!(early.get().is_some_and(|seeks| seeks < 100), "{early:?} of {} seeks", until(&simulation));
}
