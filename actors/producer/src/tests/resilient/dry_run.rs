//! Plans of a dry run.

use super::*;
use orchestrator_producer_rules::{
    cursor::{Cursor, Remaining},
    stencil::InvalidDocument,
};

use crate::{
    plan::plan,
    tests::simulation::{End, Fault, run, settings},
};

#[tokio::test(start_paused = true)]
async fn a_plan_counts_remaining_jobs_and_writes_nothing() {
    let mut made = simulation_with(
        &[0, 0, 9, 9, 0],
        &[stencil(1, 2, 3), stencil(2, 2, 2), stencil(3, 0, 3), stencil(4, 3, 4), stencil(5, 5, 4)],
        3,
        7,
    );
    made.stencils.get_mut(&id(2)).unwrap().state = State::Complete;
    let invalid = InvalidDocument {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    made.unreadable.push(invalid.clone());
    let simulation = Rc::new(RefCell::new(made));
    let process = process(&simulation);
    let before = simulation.borrow().stencils.clone();
    let found = plan(&process, 2, 300).await.unwrap();
    let planned: Vec<_> = found
        .stencils
        .iter()
        .map(|stencil| (stencil.tcn, stencil.root_pages, stencil.scion_pages, stencil.jobs))
        .collect();
    // 9 rootstocks, 6 good scions; TCN 4 has no tangles yet.
    assert_eq!(planned, [(5, 5, 3, 15), (7, 5, 0, 0)]);
    assert_eq!((found.jobs, found.bytes, found.left_out), (15, 4_500, 2));
    assert_eq!(found.unreadable, [invalid.to_string()]);
    assert_eq!((found.pushing_secs(4), found.pushing_secs(0)), (Some(4), None));
    assert_eq!(simulation.borrow().stencils, before);
    assert_eq!((simulation.borrow().pushed.len(), &simulation.borrow().lease), (0, &None));
}

/// A started stencil keeps its page size, and its acknowledged jobs are not counted.
#[tokio::test(start_paused = true)]
async fn a_plan_counts_from_the_cursor() {
    let simulation = Rc::new(RefCell::new(simulation_with(&[0, 0, 90, 90], &[stencil(1, 2, 3)], 4, 5)));
    simulation.borrow_mut().faults.insert(50, Fault::KillBefore);
    let end = run(machine(3), settings(false, 3, 40, "p"), &process(&simulation)).await;
    assert_eq!(end, End::Killed);
    let pushed = simulation.borrow().pushed.len() as u64;
    let cursor: Cursor = simulation.borrow().stencils[&id(1)].cursor.unwrap();
    assert!(pushed > 0 && matches!(cursor.remaining, Remaining::From { .. }), "{cursor:?}");
    let found = plan(&process(&simulation), 500, 1).await.unwrap();
    assert_eq!((found.jobs, cursor.total()), (30 * 20 - cursor.pushed, 600));
}
