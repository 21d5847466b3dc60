//! The dry run.

use orchestrator_producer::{
    cursor::{Cursor, Rest},
    plan::plan,
    stencil::Misread,
};

use super::*;
use crate::world::{End, Fault, live, settings};

#[tokio::test(start_paused = true)]
async fn a_plan_counts_what_is_left_and_writes_nothing() {
    let mut made = world_with(
        &[0, 0, 9, 9, 0],
        &[stencil(1, 2, 3), stencil(2, 2, 2), stencil(3, 0, 3), stencil(4, 3, 4), stencil(5, 5, 4)],
        3,
        7,
    );
    made.stencils.get_mut(&id(2)).unwrap().state = State::Complete;
    let misread = Misread {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    made.unreadable.push(misread.clone());
    let world = Rc::new(RefCell::new(made));
    let process = process(&world);
    let before = world.borrow().stencils.clone();
    let found = plan(&process, 2, 300).await.unwrap();
    let told: Vec<_> = found
        .stencils
        .iter()
        .map(|stencil| (stencil.tcn, stencil.root_pages, stencil.scion_pages, stencil.jobs))
        .collect();
    // 9 rootstocks, 6 good scions; of TCN 4 there is nothing yet.
    assert_eq!(told, [(5, 5, 3, 15), (7, 5, 0, 0)]);
    assert_eq!((found.jobs, found.bytes, found.left_out), (15, 4_500, 2));
    assert_eq!(found.unreadable, [misread.to_string()]);
    assert_eq!((found.pushing_secs(4), found.pushing_secs(0)), (Some(4), None));
    assert_eq!(world.borrow().stencils, before);
    assert_eq!((world.borrow().pushed.len(), &world.borrow().lease), (0, &None));
}

/// A stencil that was begun keeps its page size, and what was pushed is not counted again.
#[tokio::test(start_paused = true)]
async fn a_plan_counts_on_from_the_cursor() {
    let world = Rc::new(RefCell::new(world_with(&[0, 0, 90, 90], &[stencil(1, 2, 3)], 4, 5)));
    world.borrow_mut().faults.insert(50, Fault::KillBefore);
    let end = live(machine(3), settings(false, 3, 40, "p"), &process(&world)).await;
    assert_eq!(end, End::Killed);
    let pushed = world.borrow().pushed.len() as u64;
    let cursor: Cursor = world.borrow().stencils[&id(1)].cursor.unwrap();
    assert!(pushed > 0 && matches!(cursor.rest, Rest::From { .. }), "{cursor:?}");
    let found = plan(&process(&world), 500, 1).await.unwrap();
    assert_eq!((found.jobs, cursor.total()), (30 * 20 - cursor.pushed, 600));
}
