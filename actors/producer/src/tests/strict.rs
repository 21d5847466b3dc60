//! `compat = "strict"` against an independent model of the original: same jobs, same order, same states.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use fastrand::Rng;
use orchestrator_harness::rounds;
use orchestrator_producer_rules::{
    advance::{Action, Halt, Machine},
    id::Id,
    pair::Pair,
    stencil::{ConfigDocument, State, Stencil},
};

use crate::{
    tests::original::{self, Args, Interval, Original},
    tests::simulation::{End, SimulatedProcess, Simulation, run, settings},
};

fn id(number: u64) -> Id {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn simulation_of(original: &Original) -> Simulation {
    let mut simulation = Simulation::default();
    for (id, tcn, is_good) in &original.tangles {
        simulation.insert(id.parse().unwrap(), *tcn, *is_good);
    }
    for stencil in &original.stencils {
        simulation.stencil(Stencil {
            id: stencil.id.parse().unwrap(),
            tcn: stencil.tcn,
            rootstock_tcn: stencil.root,
            scion_tcn: stencil.scion,
            state: stencil.state.into(),
            cursor: None,
        });
    }
    simulation.config = Some(ConfigDocument { completed_tcn: original.completed, max_tcn: 3 });
    simulation
}

fn args(pair: &Pair) -> Args {
    let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = *pair;
    (root_id.to_string(), root_tcn, scion_id.to_string(), scion_tcn, page_size.into())
}

/// Runs the producer through the intervals. Returns the reason of each exit.
async fn run_strict(
    simulation: Simulation,
    page_size: u32,
    chunk: usize,
    jobs: u64,
    intervals: &[Interval],
) -> (Simulation, Vec<String>) {
    let simulation = Rc::new(RefCell::new(simulation));
    let at = Rc::new(Cell::new(0));
    let pass = {
        let (at, intervals) = (at.clone(), intervals.to_vec());
        move |simulation: &mut Simulation| {
            let Some(interval) = intervals.get(at.replace(at.get() + 1)) else { return false };
            for (id, tcn, is_good) in &interval.inserted {
                simulation.insert(id.parse().unwrap(), *tcn, *is_good);
            }
            // The pushed jobs are done; otherwise no reading is idle.
            simulation.queue_state.queues.clear();
            simulation.queue_state.working = interval.jobs;
            true
        }
    };
    simulation.borrow_mut().queue_state.working = jobs;
    let process = SimulatedProcess::new(&simulation, pass);
    let mut crashes = Vec::new();
    loop {
        let settings = settings(true, page_size, chunk, "strict");
        match run(Machine::strict(["arborescent".to_owned()].into()), settings, &process).await {
            End::Stopped => break,
            End::Returned(Action::Halt(halt)) => {
                crashes.push(halt.to_string());
                if !(process.on_tick)(&mut simulation.borrow_mut()) {
                    break;
                }
            }
            end => panic!("{end:?}"),
        }
    }
    drop(process);
    (Rc::into_inner(simulation).expect("the processes are gone").into_inner(), crashes)
}

fn assert_same(original: &Original, simulation: &Simulation, seed: u64) {
    let pushed: Vec<Args> = simulation.pushed.iter().map(|(pair, _)| args(pair)).collect();
    let differs = pushed.iter().zip(&original.pushed).position(|(ours, theirs)| ours != theirs);
    assert_eq!((pushed.len(), differs), (original.pushed.len(), None), "seed {seed}: jobs");
    for stencil in &original.stencils {
        let ours = &simulation.stencils[&stencil.id.parse().unwrap()];
        assert_eq!((ours.state.number(), ours.cursor), (stencil.state, None), "seed {seed}: {stencil:?}");
    }
    assert_eq!(simulation.config.unwrap().completed_tcn, original.completed, "seed {seed}: completed");
    assert_eq!(simulation.lease, None, "seed {seed}: the original leaves no lease");
}

/// Tangles of crossings 1 to 5, up to `pages` pages each, sometimes none.
fn tangles(rng: &mut Rng, page_size: usize, pages: usize, next_id: &mut u64) -> Vec<original::Tangle> {
    let mut tangles = Vec::new();
    for tcn in 1..=5 {
        let count = if rng.u8(..8) == 0 { 0 } else { rng.usize(..=(page_size * pages).min(20_000)) };
        for _ in 0..count {
            // Identifiers are not in the order of insertion.
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
    let before = simulation_of(&original);
    original.run(jobs, &intervals);
    let (simulation, crashes) = run_strict(before, page_size as u32, chunk, jobs, &intervals).await;
    assert_same(&original, &simulation, seed);
    assert_eq!(crashes.len(), original.crashes, "seed {seed}: {crashes:?}");
    (simulation.pushed.len(), crashes.len())
}

#[tokio::test(start_paused = true)]
async fn random_documents_give_the_models_jobs_and_states() {
    let (mut jobs, mut crashes) = (0, 0);
    for seed in 0..rounds("ORCHESTRATOR_PRODUCER_SEEDS", 40) {
        let (pushed, crashed) = compare(seed).await;
        jobs += pushed;
        crashes += crashed;
    }
    // Guards against a comparison of empty runs.
    assert!(jobs > 1_000 && crashes > 0, "{jobs} jobs, {crashes} crashes");
}

/// One stencil of TCN 5 = 2 + 3 over this number of tangles.
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

/// First unit test in the original's documentation.
#[tokio::test(start_paused = true)]
async fn a_valid_stencil_is_pushed() {
    let (simulation, crashes) = run_strict(simulation_of(&one_stencil(5, 3)), 2, 1_000, 1, &[]).await;
    let pushed: Vec<Args> = simulation.pushed.iter().map(|(pair, _)| args(pair)).collect();
    let page = |number: u64| id(number).to_string();
    let wanted = [(0, 100), (0, 102), (2, 100), (2, 102), (4, 100), (4, 102)];
    assert_eq!(pushed, wanted.map(|(root, scion)| (page(root), 2, page(scion), 3, 2)));
    assert!(simulation.pushed.iter().all(|(_, jid_seed)| jid_seed.is_none()), "jids are random");
    assert_eq!((simulation.stencils[&id(7)].state, crashes), (State::Complete, Vec::new()));
}

/// The reason of a halt is the last line of the process, so it says what to do.
#[test]
fn a_halt_names_the_stencil_and_what_to_do() {
    let set = orchestrator_producer_rules::stencil::Set::Scion { tcn: 3 };
    let said = Halt::EmptySet { stencil: "stencil 07".to_owned(), set }.to_string();
    assert!(said.contains("stencil 07") && said.contains("insert some"), "{said}");
}

/// Both lists of pages are complete before the first push, so later tangles are in no page. They are read
/// again for each stencil (CONTRACT SX10).
#[tokio::test(start_paused = true)]
async fn flaw_10_and_12_pages_are_read_before_the_first_job_and_for_each_stencil() {
    let mut original = one_stencil(5, 3);
    original.stencils.push(original::Stencil { id: id(8).to_string(), tcn: 5, root: 2, scion: 3, state: 0 });
    let simulation = Rc::new(RefCell::new(simulation_of(&original)));
    simulation.borrow_mut().queue_state.working = 1;
    let come = Cell::new(0);
    let coming = move |simulation: &mut Simulation| {
        // One tangle before each of the first two jobs, behind all pages.
        if come.replace(come.get() + 1) < 2 {
            simulation.insert(id(50 + come.get()), 2, true);
        }
        std::time::Duration::ZERO
    };
    let process =
        SimulatedProcess { before_chunk: Rc::new(coming), ..SimulatedProcess::new(&simulation, |_| false) };
    let end =
        run(Machine::strict(["arborescent".to_owned()].into()), settings(true, 2, 1, "s"), &process).await;
    assert_eq!(end, End::Stopped);
    let simulation = simulation.borrow();
    // 5 rootstocks have 3 pages, 7 have 4; 3 scions have 2.
    assert_eq!(simulation.pushed.len(), 3 * 2 + 4 * 2);
    assert_eq!(simulation.seeks, (3 + 1) + (2 + 1) + (4 + 1) + (2 + 1));
}
