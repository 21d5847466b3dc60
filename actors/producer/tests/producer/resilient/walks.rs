//! Walks over sets that change, or do not, and the queue's water marks.

use std::cell::Cell;

use orchestrator_producer::{advance::Action, watermark::WaterMarks};

use super::*;
use crate::world::{self, End, live, settings};

async fn finish(world: &Rc<RefCell<World>>, page_size: u32, process: &Process) {
    let end = live(machine(page_size), settings(false, page_size, 50, "p"), process).await;
    assert_eq!(end, End::Said(Action::Finish), "{:?}", world.borrow().ledger);
}

/// Flaw 12: the pages of a set that does not change are looked up once.
#[tokio::test(start_paused = true)]
async fn flaw_12_kept_pages_are_not_walked_again() {
    let stencils: Vec<Stencil> = (1..4)
        .flat_map(|root| (1..4).map(move |scion| stencil((root * 10 + scion) as u64, root, scion)))
        .collect();
    let world = Rc::new(RefCell::new(world_with(&[0, 30, 30, 30], &stencils, 1, 6)));
    finish(&world, 2, &process(&world)).await;
    assert_complete(&world.borrow(), 2, "kept");
    // Three sets of 15 pages and three of 10, each walked to its end once: one seek more than pages.
    assert_eq!(world.borrow().seeks, 3 * (15 + 1) + 3 * (10 + 1));
}

/// A set that grew between two TCNs is walked again; more than a page came, before, among and behind what was there.
#[tokio::test(start_paused = true)]
async fn what_comes_between_two_tcns_is_grafted() {
    let stencils = [stencil(1, 2, 2), stencil(2, 2, 3)];
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 9, 9], &stencils, 3, 5)));
    let come = Cell::new(false);
    let growing = Process::new(&world, move |world| {
        world.work_off();
        if !come.replace(true) {
            for number in [1, 2, 3_050, 3_500, 9_999] {
                world.insert(id(number), 2, true);
            }
        }
        true
    });
    finish(&world, 2, &growing).await;
    assert_eq!(world.borrow().sets[&Set::Rootstock { tcn: 2 }].len(), 14);
    assert_covered(&world.borrow(), 2);
}

/// Every pair of tangles of every stencil is in some job, as workers read it: so many tangles from the first on.
fn assert_covered(world: &World, page_size: u32) {
    for stencil in world.stencils.values() {
        let sets = [stencil.roots(), stencil.scions()].map(|set| &world.sets[&set]);
        let page = |set: &BTreeSet<Id>, first: Id| -> Vec<Id> {
            set.range(first..).take(page_size as usize).copied().collect()
        };
        let mut grafted = BTreeSet::new();
        for (pair, _) in &world.pushed {
            if (pair.root_tcn, pair.scion_tcn) == (stencil.rootstock_tcn, stencil.scion_tcn) {
                for root in page(sets[0], pair.root_id) {
                    grafted.extend(page(sets[1], pair.scion_id).into_iter().map(|scion| (root, scion)));
                }
            }
        }
        assert_eq!(grafted.len(), sets[0].len() * sets[1].len(), "{stencil}");
    }
}

/// Flaw 10: a tangle that comes into the middle of a page pushes another one out of it, which no page has then.
#[tokio::test(start_paused = true)]
async fn flaw_10_what_comes_while_jobs_are_out_is_grafted() {
    for number in [0, 3_001, 3_005, 3_500] {
        let world = Rc::new(RefCell::new(world_with(&[0, 0, 9, 9], &[stencil(1, 2, 3)], 4, 5)));
        let late = Process::new(&world, move |world| {
            world.insert(id(number), 2, true);
            world.work_off();
            true
        });
        finish(&world, 2, &late).await;
        assert_covered(&world.borrow(), 2);
    }
}

/// Flaw 15: a stencil without headroom blocks nothing; it is looked at in every tick, and its large set not counted each time.
#[tokio::test(start_paused = true)]
async fn flaw_15_no_headroom_is_looked_at_cheaply_and_taken_up() {
    let world =
        Rc::new(RefCell::new(world_with(&[0, 0, 9, 0, 5], &[stencil(1, 2, 3), stencil(2, 2, 4)], 4, 6)));
    let counts = Rc::new(RefCell::new(Vec::new()));
    let seen = counts.clone();
    let late = Process::new(&world, move |world| {
        world.work_off();
        seen.borrow_mut().push((world.stencils[&id(1)].state, world.counts));
        // Only after the last TCN of all is pushed does the set fill.
        if world.stencils[&id(2)].state == State::Complete {
            world.insert(id(7), 3, true);
        }
        true
    });
    finish(&world, 2, &late).await;
    assert_complete(&world.borrow(), 2, "the stencil is taken up");
    let counts = counts.borrow();
    assert_eq!(counts[..2], [(State::NoHeadroom, 2), (State::NoHeadroom, 2 + 2)], "the other stencil's two");
}

/// Flaw 14: jobs that wait never exceed the high mark.
#[tokio::test(start_paused = true)]
async fn flaw_14_the_queue_stays_below_its_mark() {
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 90, 90], &[stencil(1, 2, 3)], 4, 5)));
    let slow = Process::new(&world, |world| {
        let length = world.reading.queues.entry("arborescent".to_owned()).or_default();
        let done = (*length).min(70);
        *length -= done;
        world.reading.processed += done;
        true
    });
    let mut settings = settings(false, 1, 40, "p");
    settings.marks = WaterMarks { high: 200, low: 50 };
    assert_eq!(live(machine(1), settings, &slow).await, End::Said(Action::Finish));
    assert_complete(&world.borrow(), 1, "water marks");
    assert!((161..=200).contains(&world.borrow().longest), "{}", world.borrow().longest);
}

/// The first job leaves before the last page is known.
#[tokio::test(start_paused = true)]
async fn the_first_jobs_leave_while_pages_are_walked() {
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 9, 900], &[stencil(1, 2, 3)], 4, 5)));
    // The first push is cut: what was seen until then?
    let until = |world: &Rc<RefCell<World>>| world.borrow().seeks;
    let early = Rc::new(Cell::new(None));
    let seen = early.clone();
    let watched = process(&world);
    let first = async {
        while world.borrow().pushed.is_empty() {
            tokio::task::yield_now().await;
        }
        seen.set(Some(until(&world)));
    };
    let life = live(machine(1), settings(false, 1, 1_000, "p"), &watched);
    // Whatever is refused makes the producer wait, so that the watcher gets its turn.
    world.borrow_mut().faults.extend((1..60).map(|call| (call, world::Fault::Refuse)));
    let (end, ()) = tokio::join!(life, first);
    assert_eq!(end, End::Said(Action::Finish));
    assert!(early.get().is_some_and(|seeks| seeks < 100), "{early:?} of {} seeks", until(&world));
}
