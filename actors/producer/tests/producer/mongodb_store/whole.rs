//! The rules over documents: whole lives of a producer, with a queue in memory.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use fastrand::Rng;
use orchestrator_producer::{
    advance::{Action, Machine, Rules},
    reading::{Count, Judgement},
};

use super::*;
use crate::{
    original::{self, Interval, Original},
    world::{End, Fault, Process, World, live_on, settings},
};

fn quick(process: Process) -> Process {
    Process { poll: Duration::from_millis(1), ..process }
}

fn mended() -> Machine {
    let judgement = Judgement { queue: "arborescent".to_owned(), count: Count::Queue, ignore_dead: false };
    Machine::mended(Rules { judgement, page_size: 2, until_done: true })
}

/// Small collections, since each page is a question to the stand-in: larger ones are compared in memory.
fn random(rng: &mut Rng) -> Original {
    let mut original = Original {
        completed: rng.i64(1..4),
        page_size: *rng.choice(&[2, 7]).unwrap(),
        ..Original::default()
    };
    for tcn in 1..4 {
        for _ in 0..rng.u64(1..30) {
            original.tangles.push((id(rng.u64(..)).to_string(), tcn, rng.bool()));
        }
    }
    for number in 0..rng.u64(1..8) {
        let (root, scion) = (rng.i64(0..4), rng.i64(1..4));
        let (id, tcn, state) = (id(number).to_string(), root + scion, *rng.choice(&[0, 0, 1, 2, 3]).unwrap());
        original.stencils.push(original::Stencil { id, tcn, root, scion, state });
    }
    original
}

async fn fill(server: &MongoDb, original: &Original) {
    let oid = |hex: &String| ObjectId::parse_str(hex).unwrap();
    let tangles = original.tangles.iter();
    let tangles = tangles.map(|(id, tcn, is_good)| doc! { "_id": oid(id), "TCN": tcn, "is_good": is_good });
    let stencils = original.stencils.iter().map(|stencil| {
        doc! { "_id": oid(&stencil.id), "TCN": stencil.tcn, "rootstock_tcn": stencil.root, "scion_tcn": stencil.scion, "state": stencil.state }
    });
    insert(server, "tangles", tangles.collect()).await;
    insert(server, "stencils", stencils.collect()).await;
    insert(server, "stencils", vec![config(original.completed as i32, 3)]).await;
}

#[tokio::test]
async fn strict_is_the_model_over_documents() {
    let mut jobs = 0;
    for seed in 0..6 {
        let server = MongoDb::start();
        let mut original = random(&mut Rng::with_seed(seed));
        fill(&server, &original).await;
        original.live(0, &vec![Interval::default(); 3]);
        let world = Rc::new(RefCell::new(World::default()));
        let ticks = Rc::new(Cell::new(0));
        let pass = move |world: &mut World| {
            world.work_off();
            ticks.replace(ticks.get() + 1) < 3
        };
        let process = quick(Process::new(&world, pass));
        loop {
            let store = open(&server, true).await;
            let end = live_on(
                Machine::strict("arborescent"),
                settings(true, original.page_size as u32, 5, "s"),
                store,
                &process,
            );
            match end.await {
                End::Said(Action::Halt(_)) if (process.on_tick)(&mut world.borrow_mut()) => {}
                End::Stopped | End::Said(Action::Halt(_)) => break,
                end => panic!("{end:?}"),
            }
        }
        let pushed: Vec<String> = world.borrow().pushed.iter().map(|(pair, _)| pair.to_string()).collect();
        let wanted: Vec<String> =
            original.pushed.iter().map(|(a, b, c, d, e)| format!("{a}:{b}:{c}:{d}:{e}")).collect();
        assert_eq!(pushed, wanted, "seed {seed}");
        for stencil in &original.stencils {
            let found = document(&server, ObjectId::parse_str(&stencil.id).unwrap()).await;
            assert_eq!((number(&found, "state"), found.len()), (Some(stencil.state), 5));
        }
        let found = document(&server, "config").await;
        assert_eq!((number(&found, "current_completed_tcn"), found.len()), (Some(original.completed), 3));
        jobs += pushed.len();
    }
    assert!(jobs > 50, "{jobs}");
}

/// Killed after a chunk is noted, the next producer goes on with the next pair; nothing is pushed twice.
#[tokio::test]
async fn a_successor_goes_on_from_the_cursor_in_the_document() {
    let server = MongoDb::start();
    insert(&server, "tangles", (0..31).map(|number| tangle(number, 2, true)).collect()).await;
    insert(&server, "stencils", vec![config(3, 4), stencil(100, 2, 2, 0)]).await;
    let world = Rc::new(RefCell::new(World::default()));
    // Call 1 reads the queue, each later one pushes a chunk: the fourth chunk never leaves.
    world.borrow_mut().faults.insert(5, Fault::KillBefore);
    let life = async || {
        let process = quick(Process::new(&world, |world| {
            world.work_off();
            true
        }));
        live_on(mended(), settings(false, 2, 40, "one"), open(&server, false).await, &process).await
    };
    assert_eq!(life().await, End::Killed);
    let half = document(&server, oid(100)).await;
    assert_eq!((number(&half, "state"), world.borrow().pushed.len()), (Some(1), 32 + 40 + 40));
    assert_eq!(life().await, End::Said(Action::Finish));
    let (jobs, duplicates) = (world.borrow().pushed.len(), world.borrow().duplicates());
    assert_eq!((jobs, duplicates), (16 * 16, 0));
    assert_eq!(number(&document(&server, oid(100)).await, "state"), Some(3));
    let config = document(&server, "config").await;
    assert_eq!(number(&config, "current_completed_tcn"), Some(4));
}
