//! `compat = "strict"` against an independent model of the original: the same jobs, in the same order, the same states.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::original::{self, Args, Interval, Original};
use crate::world::{End, Process, World, live, settings};
use fastrand::Rng;
use orchestrator_harness::rounds;
use orchestrator_producer::{
    advance::{Action, Halt, Machine},
    id::Id,
    pair::Pair,
    stencil::{Ledger, State, Stencil},
};

fn id(number: u64) -> Id {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

/// The product's world with what the model has.
fn world_of(original: &Original) -> World {
    let mut world = World::default();
    for (id, tcn, is_good) in &original.tangles {
        world.insert(id.parse().unwrap(), *tcn, *is_good);
    }
    for stencil in &original.stencils {
        world.stencil(Stencil {
            id: stencil.id.parse().unwrap(),
            tcn: stencil.tcn,
            rootstock_tcn: stencil.root,
            scion_tcn: stencil.scion,
            state: stencil.state.into(),
            cursor: None,
        });
    }
    world.ledger = Some(Ledger { completed_tcn: original.completed, max_tcn: 3 });
    world
}

fn args(pair: &Pair) -> Args {
    let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = *pair;
    (root_id.to_string(), root_tcn, scion_id.to_string(), scion_tcn, page_size.into())
}

/// Runs the product through the same times; gives what it said at each of its deaths.
async fn strictly(
    world: World,
    page_size: u32,
    chunk: usize,
    jobs: u64,
    intervals: &[Interval],
) -> (World, Vec<String>) {
    let world = Rc::new(RefCell::new(world));
    let at = Rc::new(Cell::new(0));
    let pass = {
        let (at, intervals) = (at.clone(), intervals.to_vec());
        move |world: &mut World| {
            let Some(interval) = intervals.get(at.replace(at.get() + 1)) else { return false };
            for (id, tcn, is_good) in &interval.inserted {
                world.insert(id.parse().unwrap(), *tcn, *is_good);
            }
            // What was pushed is done, or the script would never come to its quiet readings.
            world.reading.queues.clear();
            world.reading.working = interval.jobs;
            true
        }
    };
    world.borrow_mut().reading.working = jobs;
    let process = Process::new(&world, pass);
    let mut deaths = Vec::new();
    loop {
        let settings = settings(true, page_size, chunk, "strict");
        match live(Machine::strict("arborescent"), settings, &process).await {
            End::Stopped => break,
            End::Said(Action::Halt(halt)) => {
                deaths.push(halt.to_string());
                if !(process.on_tick)(&mut world.borrow_mut()) {
                    break;
                }
            }
            end => panic!("{end:?}"),
        }
    }
    drop(process);
    (Rc::into_inner(world).expect("the processes are gone").into_inner(), deaths)
}

fn assert_same(original: &Original, world: &World, seed: u64) {
    let pushed: Vec<Args> = world.pushed.iter().map(|(pair, _)| args(pair)).collect();
    let differs = pushed.iter().zip(&original.pushed).position(|(ours, theirs)| ours != theirs);
    assert_eq!((pushed.len(), differs), (original.pushed.len(), None), "seed {seed}: jobs");
    for stencil in &original.stencils {
        let ours = &world.stencils[&stencil.id.parse().unwrap()];
        assert_eq!((ours.state.number(), ours.cursor), (stencil.state, None), "seed {seed}: {stencil:?}");
    }
    assert_eq!(world.ledger.unwrap().completed_tcn, original.completed, "seed {seed}: completed");
    assert_eq!(world.lease, None, "seed {seed}: the original leaves no lease");
}

/// Tangles of crossings 1 to 5, as many as `pages` pages of each; now and then none of one.
fn tangles(rng: &mut Rng, page_size: usize, pages: usize, next_id: &mut u64) -> Vec<original::Tangle> {
    let mut tangles = Vec::new();
    for tcn in 1..=5 {
        let count = if rng.u8(..8) == 0 { 0 } else { rng.usize(..=(page_size * pages).min(20_000)) };
        for _ in 0..count {
            // Identifiers do not come in the order of insertion.
            *next_id += 1;
            let number = (rng.u64(..) << 24) | *next_id;
            tangles.push((id(number).to_string(), tcn, rng.u8(..4) > 0));
        }
    }
    rng.shuffle(&mut tangles);
    tangles
}

fn stencils(rng: &mut Rng) -> Vec<original::Stencil> {
    let mut stencils = Vec::new();
    for number in 0..rng.u64(1..14) {
        let (root, scion) = (rng.i64(0..=4), rng.i64(1..=4));
        let tcn = root + scion;
        let state = *rng.choice(&[0, 0, 0, 0, 1, 1, 2, 3, 7]).unwrap();
        stencils.push(original::Stencil { id: id(1_000 + number).to_string(), tcn, root, scion, state });
    }
    rng.shuffle(&mut stencils);
    stencils
}

async fn compare(seed: u64) -> (usize, usize) {
    let mut rng = Rng::with_seed(seed);
    let (page_size, pages) = *rng.choice(&[(1, 40), (2, 40), (7, 30), (100, 25), (1_000, 20)]).unwrap();
    let mut next_id = 0;
    let mut original = Original {
        tangles: tangles(&mut rng, page_size, pages, &mut next_id),
        stencils: stencils(&mut rng),
        completed: rng.i64(0..=5),
        page_size,
        ..Original::default()
    };
    let intervals: Vec<Interval> = (0..rng.usize(1..20))
        .map(|_| Interval {
            inserted: if rng.u8(..4) == 0 {
                tangles(&mut rng, page_size, 2, &mut next_id)
            } else {
                Vec::new()
            },
            jobs: if rng.u8(..3) == 0 { rng.u64(1..9) } else { 0 },
        })
        .collect();
    let (jobs, chunk) = (rng.u64(..2), *rng.choice(&[1, 3, 1_000]).unwrap());
    let before = world_of(&original);
    original.live(jobs, &intervals);
    let (world, deaths) = strictly(before, page_size as u32, chunk, jobs, &intervals).await;
    assert_same(&original, &world, seed);
    assert_eq!(deaths.len(), original.deaths, "seed {seed}: {deaths:?}");
    (world.pushed.len(), deaths.len())
}

#[tokio::test(start_paused = true)]
async fn random_worlds_give_the_model_s_jobs_and_states() {
    let (mut jobs, mut deaths) = (0, 0);
    for seed in 0..rounds("ORCHESTRATOR_PRODUCER_SEEDS", 40) {
        let (pushed, died) = compare(seed).await;
        jobs += pushed;
        deaths += died;
    }
    // A comparison of nothing with nothing proves nothing.
    assert!(jobs > 1_000 && deaths > 0, "{jobs} jobs, {deaths} deaths");
}

/// One stencil of TCN 5 = 2 + 3 over so many tangles.
fn one_stencil(roots: u64, scions: u64) -> Original {
    let root = |number: u64| (id(number).to_string(), 2, true);
    let scion = |number: u64| (id(100 + number).to_string(), 3, true);
    let stencil = original::Stencil { id: id(7).to_string(), tcn: 5, root: 2, scion: 3, state: 0 };
    Original {
        tangles: (0..roots).map(root).chain((0..scions).map(scion)).collect(),
        stencils: vec![stencil],
        completed: 4,
        page_size: 2,
        ..Original::default()
    }
}

/// The first of the unit tests that the original's documentation describes.
#[tokio::test(start_paused = true)]
async fn valid_stencil() {
    let (world, deaths) = strictly(world_of(&one_stencil(5, 3)), 2, 1_000, 1, &[]).await;
    let pushed: Vec<Args> = world.pushed.iter().map(|(pair, _)| args(pair)).collect();
    let page = |number: u64| id(number).to_string();
    let wanted = [(0, 100), (0, 102), (2, 100), (2, 102), (4, 100), (4, 102)];
    assert_eq!(pushed, wanted.map(|(root, scion)| (page(root), 2, page(scion), 3, 2)));
    assert!(world.pushed.iter().all(|(_, stamp)| stamp.is_none()), "jids are random");
    assert_eq!((world.stencils[&id(7)].state, deaths), (State::Complete, Vec::new()));
}

/// A halt is what the binary shows and ends with: it must say what to do.
#[test]
fn a_halt_says_what_to_do() {
    let set = orchestrator_producer::stencil::Set::Scion { tcn: 3 };
    let said = Halt::EmptySet { stencil: "stencil 07".to_owned(), set }.to_string();
    assert!(said.contains("stencil 07") && said.contains("insert some"), "{said}");
}

/// Both lists of pages are complete before the first job leaves: what comes after that is in none. And they are made anew for
/// each stencil (CONTRACT SX10).
#[tokio::test(start_paused = true)]
async fn flaw_10_and_12_pages_are_walked_before_the_first_job_and_for_each_stencil() {
    let mut original = one_stencil(5, 3);
    original.stencils.push(original::Stencil { id: id(8).to_string(), tcn: 5, root: 2, scion: 3, state: 0 });
    let world = Rc::new(RefCell::new(world_of(&original)));
    world.borrow_mut().reading.working = 1;
    let come = Cell::new(0);
    let coming = move |world: &mut World| {
        // One each before the first two jobs leave, behind all pages.
        if come.replace(come.get() + 1) < 2 {
            world.insert(id(50 + come.get()), 2, true);
        }
        std::time::Duration::ZERO
    };
    let process = Process { on_go: Rc::new(coming), ..Process::new(&world, |_| false) };
    let end = live(Machine::strict("arborescent"), settings(true, 2, 1, "s"), &process).await;
    assert_eq!(end, End::Stopped);
    let world = world.borrow();
    // 5 rootstocks make 3 pages, 7 make 4; 3 scions make 2.
    assert_eq!(world.pushed.len(), 3 * 2 + 4 * 2);
    assert_eq!(world.seeks, (3 + 1) + (2 + 1) + (4 + 1) + (2 + 1));
}
