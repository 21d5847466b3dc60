//! Two producers of one database.

use std::time::Duration;

use orchestrator_producer::advance::Action;
use tokio::time::Instant;

use super::*;
use crate::world::{End, Fault, live, settings};

fn made() -> World {
    world_with(&[0, 0, 90, 90, 40], &[stencil(1, 2, 3), stencil(2, 3, 2), stencil(3, 2, 4)], 4, 6)
}

/// Flaw 11: of two, one works, and the other only when it is gone.
#[tokio::test(start_paused = true)]
async fn flaw_11_two_push_everything_once() {
    let world = Rc::new(RefCell::new(made()));
    let (one, other) = (process(&world), process(&world));
    let (one, other) = tokio::join!(
        live(machine(2), settings(false, 2, 20, "one"), &one),
        live(machine(2), settings(false, 2, 20, "other"), &other),
    );
    assert_eq!([one, other], [End::Said(Action::Finish), End::Said(Action::Finish)]);
    assert_complete(&world.borrow(), 2, "two");
    assert_eq!(world.borrow().duplicates(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_second_takes_over_within_the_lease() {
    for at in (3..130).step_by(7) {
        let world = Rc::new(RefCell::new(made()));
        let (one, other) = (process(&world), process(&world));
        world.borrow_mut().faults.insert(at, Fault::KillBefore);
        let ended = async |process: Process, holder: &str| {
            let end = live(machine(2), settings(false, 2, 20, holder), &process).await;
            (end, Instant::now())
        };
        let begun = Instant::now();
        let (one, other) = tokio::join!(ended(one, "one"), ended(other, "other"));
        let ends = [&one.0, &other.0];
        assert!(ends.contains(&&End::Killed) && ends.contains(&&End::Said(Action::Finish)), "{at}: {ends:?}");
        assert_complete(&world.borrow(), 2, &format!("killed at call {at}"));
        let most = world.borrow().unsure as usize * 20;
        assert!(world.borrow().duplicates() <= most, "killed at call {at}");
        // Lease, polls of the standby, and the ticks of two TCNs.
        let took = one.1.max(other.1) - begun;
        assert!(took < Duration::from_secs(30 + 3 + 30), "{at}: {took:?}");
    }
}

/// Somebody else takes the lease, and lets it go.
fn usurp(world: &mut World) {
    let lease = world.lease.as_mut().expect("a lease");
    lease.epoch += 1;
    lease.holder = "usurper".to_owned();
    lease.until_ms = 0;
}

/// Who stood still beyond its lease looks at it before the next chunk leaves: the queue cannot be fenced.
#[tokio::test(start_paused = true)]
async fn who_stood_still_pushes_nothing_under_a_lost_lease() {
    let world = Rc::new(RefCell::new(made()));
    let chunks = std::cell::Cell::new(0);
    let still = move |world: &mut World| {
        chunks.set(chunks.get() + 1);
        if chunks.get() % 5 > 0 {
            return Duration::ZERO;
        }
        usurp(world);
        Duration::from_secs(31)
    };
    let process = Process { on_go: Rc::new(still), ..process(&world) };
    let end = live(machine(2), settings(false, 2, 20, "one"), &process).await;
    assert_eq!(end, End::Said(Action::Finish));
    assert_complete(&world.borrow(), 2, "stood still");
    assert_eq!(world.borrow().duplicates(), 0);
}

/// A lease is as old as the clock that its end was reckoned from, however long it took to be written.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_slow_to_get_is_renewed_before_it_is_used() {
    let world = Rc::new(RefCell::new(made()));
    // The first call reads clock and lease, the second takes it: 35 s of cuts, longer than it lasts.
    world.borrow_mut().faults.extend((2..700).map(|call| (call, Fault::Cut)));
    let end = live(machine(2), settings(false, 2, 20, "one"), &process(&world)).await;
    assert_eq!(end, End::Said(Action::Finish));
    assert_complete(&world.borrow(), 2, "slow");
}

/// A lease that is taken although it has not ended (by hand, say): what is written is fenced, so a chunk each time is the most
/// that is repeated, and no TCN is completed by who has been overtaken.
#[tokio::test(start_paused = true)]
async fn who_was_overtaken_writes_nothing_more() {
    let world = Rc::new(RefCell::new(made()));
    let times = Rc::new(std::cell::Cell::new(0));
    let counted = times.clone();
    let process = Process::new(&world, move |world| {
        counted.set(counted.get() + 1);
        usurp(world);
        world.work_off();
        true
    });
    let mut settings = settings(false, 2, 20, "one");
    settings.marks = orchestrator_producer::watermark::WaterMarks { high: 60, low: 10 };
    let life = live(machine(2), settings, &process);
    // Never two quiet ticks under one lease.
    let ended = tokio::time::timeout(Duration::from_secs(3_600), life).await;
    assert!(ended.is_err(), "{ended:?}");
    let world = world.borrow();
    assert_eq!(world.ledger.unwrap().completed_tcn, 4);
    let pushed: BTreeSet<&Pair> = world.pushed.iter().map(|(pair, _)| pair).collect();
    assert_eq!(pushed.len(), 2 * 45 * 30);
    assert!(world.duplicates() <= 20 * times.get(), "{} of {}", world.duplicates(), times.get());
}
