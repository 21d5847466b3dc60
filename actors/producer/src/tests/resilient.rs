//! Default mode under faults: every job is pushed, and repeated only if its acknowledgement was lost.

mod completions;
mod dry_run;
mod faults;
mod instances;
mod walks;

use orchestrator_producer_rules::{
    advance::{Machine, Rules},
    id::Id,
    pair::Pair,
    queue_state::{CompletionCriteria, CountedQueues},
    stencil::{ConfigDocument, Set, State, Stencil},
};
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use crate::tests::simulation::{SimulatedProcess, Simulation};

fn id(number: u64) -> Id {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn machine(page_size: u32) -> Machine {
    let criteria = CompletionCriteria {
        queues: ["arborescent".to_owned()].into(),
        count: CountedQueues::Queue,
        ignore_dead: false,
    };
    Machine::resilient(Rules { criteria, page_size, until_done: true })
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
fn simulation_with(counts: &[u64], stencils: &[Stencil], completed_tcn: i64, max_tcn: i64) -> Simulation {
    let mut simulation =
        Simulation { config: Some(ConfigDocument { completed_tcn, max_tcn }), ..Simulation::default() };
    for (tcn, count) in counts.iter().enumerate() {
        for number in 0..*count {
            simulation.insert(id(1_000 * (tcn as u64 + 1) + number), tcn as i64, number % 3 > 0);
        }
    }
    for stencil in stencils {
        simulation.stencil(stencil.clone());
    }
    simulation
}

/// The workers complete all jobs at each tick.
fn process(simulation: &Rc<RefCell<Simulation>>) -> SimulatedProcess {
    SimulatedProcess::new(simulation, |simulation| {
        simulation.complete_jobs();
        true
    })
}

/// Every page of rootstocks with every page of scions.
fn all_jobs(simulation: &Simulation, page_size: u32) -> BTreeSet<Pair> {
    let pages = |set: Set| -> Vec<Id> {
        simulation.sets.get(&set).into_iter().flatten().copied().step_by(page_size as usize).collect()
    };
    let mut jobs = BTreeSet::new();
    for stencil in simulation.stencils.values().filter(|stencil| stencil.rootstock_tcn != 0) {
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

/// Checks that no job is missing, none is unexpected, and no jid is used twice.
fn assert_complete(simulation: &Simulation, page_size: u32, what: &str) {
    let pushed: BTreeSet<Pair> = simulation.pushed.iter().map(|(pair, _)| *pair).collect();
    assert_eq!(pushed, all_jobs(simulation, page_size), "{what}");
    let jids: BTreeSet<_> = simulation
        .pushed
        .iter()
        .map(|(pair, jid_seed)| {
            let jid_seed = jid_seed.expect("a stamp");
            (pair, jid_seed.epoch, jid_seed.attempt)
        })
        .collect();
    assert_eq!(jids.len(), simulation.pushed.len(), "{what}: a jid was used twice");
    assert_eq!(simulation.pushed_without_lease, 0, "{what}: a chunk was pushed after the lease had ended");
    let unfinished = simulation.stencils.values().filter(|stencil| stencil.state != State::Complete);
    assert_eq!(unfinished.filter(|stencil| stencil.rootstock_tcn != 0).count(), 0, "{what}");
}
