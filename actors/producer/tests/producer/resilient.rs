//! The default through accidents: every job leaves, and twice only where nobody can know.

mod accidents;
mod instances;
mod planning;
mod walks;

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use crate::world::{Process, World};
use orchestrator_producer::{
    advance::{Machine, Rules},
    id::Id,
    pair::Pair,
    reading::{Count, Judgement},
    stencil::{Ledger, Set, State, Stencil},
};

fn id(number: u64) -> Id {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn machine(page_size: u32) -> Machine {
    let judgement = Judgement { queue: "arborescent".to_owned(), count: Count::Queue, ignore_dead: false };
    Machine::mended(Rules { judgement, page_size, until_done: true })
}

fn stencil(number: u64, root: i64, scion: i64) -> Stencil {
    Stencil {
        id: id(number),
        tcn: root + scion,
        rootstock_tcn: root,
        scion_tcn: scion,
        state: State::New,
        cursor: None,
    }
}

/// `counts[tcn]` tangles of each TCN; every third is not good.
fn world_with(counts: &[u64], stencils: &[Stencil], completed_tcn: i64, max_tcn: i64) -> World {
    let mut world = World { ledger: Some(Ledger { completed_tcn, max_tcn }), ..World::default() };
    for (tcn, count) in counts.iter().enumerate() {
        for number in 0..*count {
            world.insert(id(1_000 * (tcn as u64 + 1) + number), tcn as i64, number % 3 > 0);
        }
    }
    for stencil in stencils {
        world.stencil(stencil.clone());
    }
    world
}

/// Workers take everything at each tick.
fn process(world: &Rc<RefCell<World>>) -> Process {
    Process::new(world, |world| {
        world.work_off();
        true
    })
}

/// All jobs that there are, told plainly: every page with every page.
fn all_jobs(world: &World, page_size: u32) -> BTreeSet<Pair> {
    let pages = |set: Set| -> Vec<Id> {
        world.sets.get(&set).into_iter().flatten().copied().step_by(page_size as usize).collect()
    };
    let mut jobs = BTreeSet::new();
    for stencil in world.stencils.values().filter(|stencil| stencil.rootstock_tcn != 0) {
        let (root_tcn, scion_tcn) = (stencil.rootstock_tcn, stencil.scion_tcn);
        for root_id in pages(stencil.roots()) {
            jobs.extend(pages(stencil.scions()).into_iter().map(|scion_id| Pair {
                root_id,
                root_tcn,
                scion_id,
                scion_tcn,
                page_size,
            }));
        }
    }
    jobs
}

/// Nothing is missing, nothing was made up, and no jid was used twice.
fn assert_complete(world: &World, page_size: u32, what: &str) {
    let pushed: BTreeSet<Pair> = world.pushed.iter().map(|(pair, _)| *pair).collect();
    assert_eq!(pushed, all_jobs(world, page_size), "{what}");
    let jids: BTreeSet<_> = world
        .pushed
        .iter()
        .map(|(pair, stamp)| {
            let stamp = stamp.expect("a stamp");
            (pair, stamp.epoch, stamp.attempt)
        })
        .collect();
    assert_eq!(jids.len(), world.pushed.len(), "{what}: a jid was used twice");
    assert_eq!(world.late, 0, "{what}: something was sent after the lease had ended");
    let unfinished = world.stencils.values().filter(|stencil| stencil.state != State::Complete);
    assert_eq!(unfinished.filter(|stencil| stencil.rootstock_tcn != 0).count(), 0, "{what}");
}
